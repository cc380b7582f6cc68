//! COMMAND: the table of commands as clients read it.
//! Guarantees: every command of the table is told, and nothing else.
//! Must not know: what the commands do.
//! Next: server.rs.

use super::table::{Call, Row, ServerSpec, SubSpec, Table, is_arity_met, key_words};
use super::{Failure, KeyPlaces, Words, errors};
use crate::executor::Outcome;
use crate::glob;
use crate::resp::Out;

const FLAGS: &[&str] = &["loading", "stale"];

/// The rows of this file.
pub const SPECS: &[ServerSpec] =
    &[ServerSpec::new("command", -1, FLAGS, "server", all, "Tells of the commands.").with(SUBS)];

const SUBS: &[SubSpec] = &[
    SubSpec::new("count", 2, count),
    SubSpec::new("docs", -2, docs),
    SubSpec::new("info", -2, info),
    SubSpec::new("list", -2, list),
    SubSpec::new("getkeys", -3, getkeys),
    SubSpec::new("getkeysandflags", -3, getkeysandflags),
    SubSpec::new("help", 2, help),
];

fn all(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let rows = call.shared.table.rows();
    out.array(rows.len());
    rows.iter().for_each(|row| write_row(row, out));
    Ok(Outcome::WRITTEN)
}

fn write_row(row: &Row, out: &mut Out) {
    out.array(10);
    write_head(row.name, row.arity, row.flags, row.keys, out);
    out.set(0); // ACL categories
    out.array(0); // tips
    out.array(0); // key specifications: the three numbers say it all
    out.array(row.subs.len());
    row.subs.iter().for_each(|sub| write_sub(row, sub, out));
}

fn write_sub(row: &Row, sub: &SubSpec, out: &mut Out) {
    out.array(10);
    write_head(&format!("{}|{}", row.name, sub.name), sub.arity, row.flags, KeyPlaces::NONE, out);
    out.set(0);
    (0..3).for_each(|_| out.array(0));
}

/// A sub-command by its whole name, such as "config|get".
fn find_sub<'t>(table: &'t Table, name: &[u8]) -> Option<(&'t Row, &'t SubSpec)> {
    let bar = name.iter().position(|byte| *byte == b'|')?;
    let row = table.row(&name[..bar])?;
    let sub = row.subs.iter().find(|sub| name[bar + 1..].eq_ignore_ascii_case(sub.name.as_bytes()))?;
    Some((row, sub))
}

fn write_head(name: &str, arity: i32, flags: &[&str], keys: KeyPlaces, out: &mut Out) {
    out.bulk(name.as_bytes());
    out.integer(arity.into());
    out.set(flags.len());
    flags.iter().for_each(|flag| out.simple(flag));
    [keys.first, keys.last, keys.step].iter().for_each(|place| out.integer((*place).into()));
}

fn count(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.integer(call.shared.table.rows().len() as i64);
    Ok(Outcome::WRITTEN)
}

fn info(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    if words.len() == 2 {
        return all(call, words, out);
    }
    out.array(words.len() - 2);
    for name in &words[2..] {
        match call.shared.table.row(name) {
            Some(row) => write_row(row, out),
            None => match find_sub(&call.shared.table, name) {
                Some((row, sub)) => write_sub(row, sub, out),
                None => out.null_array(),
            },
        }
    }
    Ok(Outcome::WRITTEN)
}

fn docs(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let table = &call.shared.table;
    let rows: Vec<&Row> = match &words[2..] {
        [] => table.rows().iter().collect(),
        names => names.iter().filter_map(|name| table.row(name)).collect(),
    };
    out.map(rows.len());
    for row in rows {
        out.bulk(row.name.as_bytes());
        out.map(4);
        let texts = [("summary", row.summary), ("since", "1.0.0"), ("group", row.group), ("complexity", "")];
        for (name, text) in texts {
            out.bulk(name.as_bytes());
            out.bulk(text.as_bytes());
        }
    }
    Ok(Outcome::WRITTEN)
}

fn list(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let takes: Box<dyn Fn(&str) -> bool + '_> = match &words[2..] {
        [] => Box::new(|_| true),
        [filter, by, value] if filter.eq_ignore_ascii_case(b"filterby") => {
            match String::from_utf8_lossy(by).to_ascii_lowercase().as_str() {
                "pattern" => Box::new(|name| glob::matches(value, name.as_bytes())),
                "aclcat" | "module" => Box::new(|_| false),
                _ => return Err(errors::syntax()),
            }
        }
        _ => return Err(errors::syntax()),
    };
    // Sub-commands are told by their whole names.
    let table = &call.shared.table;
    let names: Vec<_> =
        (0..table.numbers()).map(|number| table.number_name(number)).filter(|name| takes(name)).collect();
    out.array(names.len());
    names.iter().for_each(|name| out.bulk(name.as_bytes()));
    Ok(Outcome::WRITTEN)
}

fn getkeys(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let (_, keys) = find_keys(call, &words[2..])?;
    out.array(keys.len());
    keys.iter().for_each(|key| out.bulk(key));
    Ok(Outcome::WRITTEN)
}

/// What the command does to its keys, in Redis' flags, at the roughest.
fn getkeysandflags(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let (row, keys) = find_keys(call, &words[2..])?;
    let flags: &[&str] = match row.name {
        "set" | "setex" | "psetex" | "mset" | "restore" => &["OW", "update"],
        "setnx" | "msetnx" => &["OW", "insert"],
        "del" | "unlink" => &["RM", "delete"],
        _ if row.flags.contains(&"write") => &["RW", "access", "update"],
        _ => &["RO", "access"],
    };
    out.array(keys.len());
    for key in keys {
        out.array(2);
        out.bulk(key);
        out.set(flags.len());
        flags.iter().for_each(|flag| out.simple(flag));
    }
    Ok(Outcome::WRITTEN)
}

fn find_keys<'t, 'w>(call: &'t Call<'_>, request: &Words<'w>) -> Result<(&'t Row, Vec<&'w [u8]>), Failure> {
    let row = call.shared.table.row(request[0]).ok_or_else(|| Failure::reply("ERR Invalid command specified"))?;
    if row.keys == KeyPlaces::NONE {
        return Err(Failure::reply("ERR The command has no key arguments"));
    }
    if !is_arity_met(row.arity, request.len()) {
        return Err(Failure::reply("ERR Invalid number of arguments specified for command"));
    }
    Ok((row, key_words(row.keys, request).collect()))
}

fn help(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    super::client::write_help("COMMAND", SUBS, out);
    Ok(Outcome::WRITTEN)
}

#[cfg(test)]
mod tests {
    use crate::testing::Daemon;

    #[test]
    fn the_table_is_told_in_the_forms_that_clients_read() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        let count = daemon.shared.table.rows().len();
        assert_eq!(client.ask(&daemon, "COMMAND COUNT"), format!(":{count}"));
        assert!(
            client.ask(&daemon, "COMMAND").starts_with(&format!("*{count} *10 $3 get :2 *2 +readonly +fast :1 :1 :1"))
        );
        client.play(
            &daemon,
            "COMMAND INFO get nosuch => *2 *10 $3 get :2 *2 +readonly +fast :1 :1 :1 *0 *0 *0 *0 *-1
             COMMAND GETKEYS MSET a 1 b 2 => *2 $1 a $1 b
             COMMAND GETKEYS PING x => -ERR The command has no key arguments
             COMMAND GETKEYS nosuch x => -ERR Invalid command specified
             COMMAND GETKEYS GET a b => -ERR Invalid number of arguments specified for command
             COMMAND LIST FILTERBY PATTERN ge? => *1 $3 get
             COMMAND LIST FILTERBY PATTERN config|ge* => *1 $10 config|get
             COMMAND INFO config|get config|x => *2 *10 $10 config|get :-3 *4 +admin +noscript +loading +stale :0 :0 :0 *0 *0 *0 *0 *-1
             COMMAND GETKEYS MEMORY USAGE a => *1 $1 a
             COMMAND GETKEYS OBJECT ENCODING a => *1 $1 a
             COMMAND GETKEYSANDFLAGS SET a 1 => *1 *2 $1 a *2 +OW +update
             COMMAND GETKEYSANDFLAGS GET a => *1 *2 $1 a *2 +RO +access
             COMMAND DOCS nosuch => *0",
        );
        assert!(client.ask(&daemon, "COMMAND DOCS get").starts_with("*2 $3 get *8 $7 summary "));
        assert!(client.ask(&daemon, "COMMAND DOCS").starts_with(&format!("*{} ", 2 * count)));
    }
}
