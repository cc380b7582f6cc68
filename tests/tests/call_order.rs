//! The order of system calls, as the kernel saw them: what ext4 and XFS forgive by accident is kept all the same.
//! Skipped, with a line that says so, where processes cannot be traced.

use logd_tests::daemon::Daemon;
use logd_tests::trace::{lend, tracing};
use std::path::Path;

const CALLS: &str = "openat,renameat,renameat2,rename,unlinkat,unlink,fsync,fdatasync,pwritev2,pwrite64";

/// A call that has ended.
#[derive(Clone, Debug)]
struct Call {
    name: String,
    /// The whole line, with what its descriptors and names stand for.
    text: String,
}

impl Call {
    fn is(&self, name: &str, what: &str) -> bool {
        self.name == name && self.text.contains(what)
    }
}

/// The calls in the order in which they ended; a call of one thread that another one interrupts is put together again.
fn calls(file: &Path) -> Vec<Call> {
    let text = std::fs::read_to_string(file).expect("it was written");
    let (mut begun, mut calls) = (Vec::<(String, String)>::new(), Vec::new());
    for line in text.lines() {
        let Some((thread, line)) = line.trim().split_once(char::is_whitespace) else { continue };
        let line = line.trim();
        let whole = if let Some(start) = line.strip_suffix("<unfinished ...>") {
            begun.push((thread.to_owned(), start.to_owned()));
            continue;
        } else if line.starts_with("<... ") {
            let Some(at) = begun.iter().rposition(|(of, _)| of == thread) else { continue };
            format!("{} {line}", begun.remove(at).1)
        } else {
            line.to_owned()
        };
        let is_success = !whole.contains("= -1 ");
        if let Some((name, _)) = whole.split_once('(').filter(|_| is_success) {
            calls.push(Call { name: name.to_owned(), text: whole.clone() });
        }
    }
    calls
}

/// What the daemon did over several segments and three snapshots, and its directory as the trace names it.
fn traced_run() -> Option<(Vec<Call>, String)> {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let (data, file) = (directory.path().join("data"), directory.path().join("calls"));
    let wrapper = tracing(CALLS, &file)?;
    let flags = ["--io", "syscall", "--segment-bytes", "1M", "--snapshots-kept", "1"];
    let daemon = Daemon::start_under(&lend(&wrapper), &data, &flags);
    let mut client = daemon.client();
    for number in 0..90 {
        client.done(&["SET", &format!("k{number}"), &"x".repeat(60_000)]);
        if number % 30 == 29 {
            client.done(&["SAVE"]);
        }
    }
    assert!(daemon.stop().0.success());
    // The tracer ends a moment after what it traced.
    std::thread::sleep(std::time::Duration::from_millis(200));
    Some((calls(&file), data.canonicalize().expect("it is there").to_string_lossy().into_owned()))
}

/// The file that an `openat` has opened: in the brackets behind its result.
fn opened(call: &Call) -> Option<&str> {
    let (_, result) = call.text.rsplit_once("= ")?;
    result.split_once('<').map(|(_, path)| path.trim_end_matches('>'))
}

#[test]
fn a_new_or_renamed_file_is_used_only_after_its_directory_was_synced() {
    let Some((calls, data)) = traced_run() else { return };
    let mut segments = 0;
    for (at, call) in calls.iter().enumerate() {
        if !(call.name == "openat" && call.text.contains("O_CREAT") && call.text.contains(".seg")) {
            continue;
        }
        let path = opened(call).expect("it succeeded");
        let used = calls[at..].iter().position(|call| call.is("pwritev2", path)).map(|used| at + used);
        let Some(used) = used else { continue };
        let synced = calls[at..used].iter().any(|call| call.is("fsync", &format!("<{data}/log>")));
        let zeroed = calls[at..used].iter().any(|call| call.is("fdatasync", path));
        assert!(synced && zeroed, "{path} is made and zeroed durably before a command is acknowledged in it");
        segments += 1;
    }
    assert!(segments >= 4, "{segments} segments were made");
    let manifest =
        calls.iter().position(|call| call.name == "renameat" && call.text.contains("\"manifest\"")).expect("one");
    let synced = calls[manifest + 1..].iter().find(|call| call.name != "openat").expect("more calls");
    assert!(synced.is("fsync", &format!("<{data}>")), "the manifest's name is synced at once: {synced:?}");
}

#[test]
fn nothing_old_is_removed_before_the_new_snapshot_and_the_manifest_are_durable() {
    let Some((calls, data)) = traced_run() else { return };
    let renames: Vec<usize> =
        (0..calls.len()).filter(|at| calls[*at].name == "renameat" && calls[*at].text.contains(".snap\"")).collect();
    assert_eq!(renames.len(), 3, "three snapshots");
    for at in renames {
        let path = calls[at].text.split('"').nth(1).expect("the old name");
        let before = calls[..at].iter().rev().find(|call| call.text.contains(path)).expect("it was written");
        assert_eq!(before.name, "fdatasync", "the last thing before the rename: {before:?}");
        let after = |what: &dyn Fn(&Call) -> bool| calls[at..].iter().position(what).map(|after| at + after);
        let synced = after(&|call| call.is("fsync", &format!("<{data}/snapshot>"))).expect("the directory is synced");
        let swapped = after(&|call| call.is("pwritev2", "/manifest>")).expect("the manifest is swapped");
        assert!(synced < swapped, "the name lasts before the manifest names it");
        // Segments retired for a snapshot are renamed into spare ones or unlinked.
        let removed =
            after(&|call| call.name == "unlinkat" || (call.name == "renameat" && call.text.contains(".seg\"")));
        assert!(removed.is_none_or(|removed| swapped < removed), "nothing old goes before that");
    }
}
