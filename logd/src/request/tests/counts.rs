//! What the daemon counts and times, through whole connections.
//! Goal: INFO and LATENCY tell what ran, what was found and what was written, also for what ran once.
//! Next: multi.rs.

use crate::testing::Daemon;
use std::sync::atomic::Ordering;

#[test]
fn every_reading_command_counts_what_it_finds_and_no_other_does() {
    let daemon = Daemon::new();
    let mut client = daemon.client();
    client.play(&daemon, "SET a 1 => +OK\nINCR a => :2\nSETNX a 1 => :0\nRENAME a a => +OK\nAPPEND b x => :1");
    let lookups = &daemon.shared.counters.lookups;
    assert_eq!((lookups.hits.load(Ordering::Relaxed), lookups.misses.load(Ordering::Relaxed)), (0, 0));
    for name in ["GET", "STRLEN", "EXISTS", "TTL", "TYPE", "DUMP", "BITCOUNT", "GETEX", "GETDEL"] {
        lookups.hits.store(0, Ordering::Relaxed);
        lookups.misses.store(0, Ordering::Relaxed);
        client.ask(&daemon, &format!("{name} a"));
        client.ask(&daemon, &format!("{name} none"));
        let counts = (lookups.hits.load(Ordering::Relaxed), lookups.misses.load(Ordering::Relaxed));
        assert_eq!(counts, (1, 1), "{name}");
    }
}

#[test]
fn the_first_get_and_set_are_timed_and_a_bit_set_again_is_no_write() {
    let daemon = Daemon::new();
    let mut client = daemon.client();
    client.play(&daemon, "SET a 1 => +OK\nGET a => $1 1");
    let told = client.ask(&daemon, "LATENCY HISTOGRAM set get");
    assert!(told.starts_with("*4 ") && told.matches(" calls :1 ").count() == 2, "{told}");
    client.play(&daemon, "SETBIT b 7 1 => :0");
    let before = daemon.shared.db.last_lsn();
    client.play(&daemon, "SETBIT b 7 1 => :1\nSETBIT b 3 0 => :0\nBITFIELD b SET u8 0 1 => *1 :1");
    assert_eq!(daemon.shared.db.last_lsn(), before);
    client.play(&daemon, "SETBIT b 8 0 => :0\nSTRLEN b => :2");
}
