//! MULTI, EXEC and WATCH through whole connections.
//! Goal: what is queued runs as one or not at all, and a change to a watched key stops it.
//! Next: session.rs.

use crate::testing::Daemon;
use logd_engine::Ticket;

#[test]
fn queued_commands_run_as_one_and_a_failing_one_leaves_the_others_be() {
    let daemon = Daemon::new();
    let mut client = daemon.client();
    client.play(
        &daemon,
        "SET text abc => +OK
         MULTI => +OK
         SET a 1 => +QUEUED
         INCR text => +QUEUED
         PING => +QUEUED
         INCR a => +QUEUED
         GET a => +QUEUED
         EXEC => *5 +OK -ERR value is not an integer or out of range +PONG :2 $1 2
         GET a => $1 2
         EXEC => -ERR EXEC without MULTI",
    );
    let before = daemon.shared.db.last_lsn();
    client.play(&daemon, "MULTI => +OK\nSET a 1 => +QUEUED\nSET b 2 => +QUEUED\nEXEC => *2 +OK +OK");
    assert_eq!(daemon.shared.db.last_lsn(), before.next());
    assert_eq!(client.ticket.lsn, before.next());
    client.play(&daemon, "MULTI => +OK\nGET a => +QUEUED\nEXEC => *1 $1 1\nMULTI => +OK\nEXEC => *0");
    assert_eq!(client.ticket, Ticket::NOTHING);
}

#[test]
fn nesting_and_stray_commands_are_refused_without_ending_the_queue() {
    let daemon = Daemon::new();
    daemon.client().play(
        &daemon,
        "DISCARD => -ERR DISCARD without MULTI
         MULTI => +OK
         MULTI => -ERR MULTI calls can not be nested
         WATCH a => -ERR WATCH inside MULTI is not allowed
         SET a 1 => +QUEUED
         EXEC => *1 +OK
         MULTI => +OK
         SET a 2 => +QUEUED
         DISCARD => +OK
         GET a => $1 1",
    );
}

#[test]
fn a_command_that_cannot_be_queued_makes_exec_refuse_all() {
    let daemon = Daemon::new();
    for bad in ["nosuch", "GET", "CLIENT nosuch", "CLIENT SETNAME", "SAVE", "SHUTDOWN"] {
        let mut client = daemon.client();
        client.play(&daemon, "MULTI => +OK\nSET a 1 => +QUEUED");
        assert!(client.ask(&daemon, bad).starts_with("-ERR "), "{bad}");
        client.play(
            &daemon,
            "EXEC => -EXECABORT Transaction discarded because of previous errors.
             GET a => $-1
             EXEC => -ERR EXEC without MULTI",
        );
    }
    assert!(!daemon.shared.shutdown_wanted());
}

#[test]
fn a_watched_key_that_was_changed_by_anyone_stops_exec() {
    let daemon = Daemon::new();
    for change in ["SET a 2", "SET a 1", "DEL a", "EXPIRE a 100", "FLUSHALL", "APPEND a x"] {
        let (mut client, mut other) = (daemon.client(), daemon.client());
        client.play(&daemon, "SET a 1 => +OK\nWATCH a b => +OK\nMULTI => +OK\nSET c 1 => +QUEUED");
        other.ask(&daemon, change);
        client.play(&daemon, "EXEC => *-1\nEXISTS c => :0\nMULTI => +OK\nPING => +QUEUED\nEXEC => *1 +PONG");
    }
}

#[test]
fn a_watched_key_that_stayed_or_was_unwatched_does_not_stop_exec() {
    let daemon = Daemon::new();
    let (mut client, mut other) = (daemon.client(), daemon.client());
    client.play(&daemon, "WATCH a => +OK");
    other.play(&daemon, "SET b 1 => +OK\nGET a => $-1\nDEL a => :0");
    client.play(&daemon, "MULTI => +OK\nSET a 1 => +QUEUED\nEXEC => *1 +OK");
    for end in ["UNWATCH", "DISCARD", "EXEC"] {
        client.play(&daemon, "WATCH a => +OK");
        if end != "UNWATCH" {
            client.ask(&daemon, "MULTI");
        }
        client.ask(&daemon, end);
        other.ask(&daemon, "SET a other");
        client.play(&daemon, "MULTI => +OK\nPING => +QUEUED\nEXEC => *1 +PONG");
    }
    client.play(&daemon, "WATCH a => +OK\nSELECT 1 => +OK\nSET a 1 => +OK\nMULTI => +OK\nEXEC => *0");
}

#[test]
fn a_watched_key_that_ends_before_exec_stops_it_and_one_that_had_ended_before_does_not() {
    let daemon = Daemon::new();
    let mut client = daemon.client();
    client.play(&daemon, "SET a 1 PX 30 => +OK\nWATCH a => +OK\nMULTI => +OK\nPING => +QUEUED");
    std::thread::sleep(std::time::Duration::from_millis(40));
    client.play(&daemon, "EXEC => *-1\nSET a 1 PX 20 => +OK");
    std::thread::sleep(std::time::Duration::from_millis(30));
    client.play(&daemon, "WATCH a => +OK\nMULTI => +OK\nPING => +QUEUED\nGET a => +QUEUED\nEXEC => *2 +PONG $-1");
}

#[test]
fn select_inside_moves_what_follows_and_commands_without_keys_see_the_whole() {
    let daemon = Daemon::new();
    let mut client = daemon.client();
    client.play(
        &daemon,
        "MULTI => +OK
         SET a 0 => +QUEUED
         SELECT 1 => +QUEUED
         SET a 1 => +QUEUED
         DBSIZE => +QUEUED
         KEYS * => +QUEUED
         SELECT 99 => +QUEUED
         CONFIG GET maxmemory => +QUEUED
         MEMORY USAGE a => +QUEUED
         EXEC => *8 +OK +OK +OK :1 *1 $1 a -ERR DB index is out of range *2 $9 maxmemory $1 0 $-1
         GET a => $1 1
         SELECT 0 => +OK
         GET a => $1 0",
    );
}

#[test]
fn select_inside_an_exec_that_fails_moves_nothing() {
    let daemon = Daemon::new();
    let (mut client, mut other) = (daemon.client(), daemon.client());
    let long = "k".repeat(70_000);
    client.play(&daemon, "MULTI => +OK\nSELECT 2 => +QUEUED\nSET a 1 => +QUEUED\nWAIT 0 0 => +QUEUED");
    assert_eq!(client.ask(&daemon, &format!("RENAME a {long}")), "+QUEUED");
    assert!(client.ask(&daemon, "EXEC").contains("-ERR key of 70000 bytes"));
    client.play(&daemon, "DBSIZE => :1\nSELECT 0 => +OK\nWATCH b => +OK\nMULTI => +OK\nSELECT 3 => +QUEUED");
    other.play(&daemon, "SET b 1 => +OK");
    client.play(&daemon, "EXEC => *-1\nGET b => $1 1");
}

#[test]
fn a_queue_larger_than_a_request_may_be_is_refused() {
    let mut daemon = Daemon::new();
    daemon.shared.settings.input_bytes_max = 200;
    daemon.client().play(
        &daemon,
        "MULTI => +OK
         SET a 1 => +QUEUED
         SET b 1 => -ERR the transaction is larger than a request may be
         EXEC => -EXECABORT Transaction discarded because of previous errors.",
    );
}

#[test]
fn procedures_run_inside_and_waiting_commands_do_not_wait() {
    let daemon = Daemon::new();
    let mut client = daemon.client();
    client.play(
        &daemon,
        "FCALL voter_init 0 2 Ann,Bob => :2
         MULTI => +OK
         FCALL vote 1 3050000001 1 => +QUEUED
         FCALL nosuch 0 => +QUEUED
         FCALL_RO voter_results 0 => +QUEUED
         WAITAOF 1 1 0 => +QUEUED
         WAIT 1 0 => +QUEUED
         UNWATCH => +QUEUED",
    );
    // Whether the client's earlier write is synced by now is the disk's affair.
    let told = client.ask(&daemon, "EXEC");
    let wanted = "*6 :0 -ERR Function not found *2 *3 $3 Ann :1 :1 *3 $3 Bob :2 :0 *2 :N :0 :0 +OK";
    assert!((0..2).any(|count| told == wanted.replace('N', &count.to_string())), "{told}");
}

#[test]
fn quit_and_reset_are_not_queued() {
    let daemon = Daemon::new();
    let mut client = daemon.client();
    client.play(&daemon, "MULTI => +OK\nRESET => +RESET\nEXEC => -ERR EXEC without MULTI\nMULTI => +OK\nQUIT => +OK");
    assert!(client.is_closed);
}
