//! Few file descriptors, many connections: those that cannot be served are told so, the log keeps what it needs, nothing spins.

use logd_tests::client::{Client, Reply};
use logd_tests::daemon::Daemon;
use logd_tests::trace::{lend, with_descriptors};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use std::time::{Duration, Instant};

/// Long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Processor time of a process so far, in hundredths of a second.
fn processor_ticks(daemon: &Daemon) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.process())).expect("it lives");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in brackets").split_whitespace().collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}

fn check_idle(daemon: &Daemon) {
    let before = processor_ticks(daemon);
    std::thread::sleep(Duration::from_millis(700));
    let used = processor_ticks(daemon) - before;
    assert!(used < 35, "{used} hundredths of a second of work while there is none: it spins");
}

/// Gives the limit that was in force.
fn limit_descriptors(daemon: &Daemon, count: Option<u64>) -> Option<u64> {
    let process = Pid::from_raw(i32::try_from(daemon.process()).expect("a process number"));
    let old = getrlimit(Resource::Nofile).maximum;
    let set = prlimit(process, Resource::Nofile, Rlimit { current: count, maximum: old }).expect("it is our child");
    set.current
}

/// The number that its next descriptor would get: a limit there refuses every new one.
fn descriptor_next(daemon: &Daemon) -> u64 {
    let directory = format!("/proc/{}/fd", daemon.process());
    (0..).find(|number| !std::path::Path::new(&directory).join(number.to_string()).exists()).expect("there is one")
}

/// Writes enough for several new segments, and takes a snapshot.
fn use_the_log(client: &mut Client) {
    let value = "x".repeat(60_000);
    for number in 0..60 {
        client.done(&["SET", &format!("k{number}"), &value]);
    }
    client.done(&["SAVE"]);
}

#[test]
fn with_forty_descriptors_connections_are_refused_with_a_reason_and_the_log_has_its_own() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let flags = ["--threads", "1", "--segment-bytes", "1M"];
    let daemon = Daemon::start_under(&lend(&with_descriptors(40)), &data, &flags);
    assert!(daemon.said().contains("maxclients is"), "it says how many it can serve: {}", daemon.said());
    let mut first = daemon.client();
    first.done(&["SET", "early", "v"]);
    let mut others: Vec<Client> = (0..100).map(|_| daemon.client()).collect();
    let told = others.iter_mut().rev().take(90).filter_map(|client| client.receive().ok());
    let refused = told.filter(|reply| matches!(reply, Reply::Error(text) if text.contains("max number of clients")));
    assert_eq!(refused.count(), 90, "each that is too many is told so");
    use_the_log(&mut first);
    check_idle(&daemon);
    drop(others);
    daemon.kill();
    let daemon = Daemon::start(&data, &flags);
    assert_eq!(daemon.client().number(&["DBSIZE"]), 61);
}

#[test]
fn when_descriptors_run_out_accepting_rests_and_goes_on_later() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let daemon = Daemon::start(&directory.path().join("data"), &["--segment-bytes", "1M"]);
    let mut first = daemon.client();
    first.done(&["SET", "early", "v"]);
    std::thread::sleep(Duration::from_millis(100));
    let old = limit_descriptors(&daemon, Some(descriptor_next(&daemon)));
    let mut waiting: Vec<Client> = (0..5).map(|_| daemon.client()).collect();
    let begun = Instant::now();
    while !daemon.said().contains("failed to accept a connection") {
        assert!(begun.elapsed() < PATIENCE, "it says that it cannot accept: {}", daemon.said());
        std::thread::sleep(Duration::from_millis(10));
    }
    check_idle(&daemon);
    assert_eq!(first.get("early").as_deref(), Some("v"), "who is connected is served");
    assert_eq!(daemon.said().matches("failed to accept").count(), 1, "it is said once");
    limit_descriptors(&daemon, old);
    for client in &mut waiting {
        assert_eq!(client.get("early").as_deref(), Some("v"), "who waited is served in the end");
    }
    use_the_log(&mut first);
}

#[test]
fn a_log_without_descriptors_for_its_next_file_acknowledges_nothing_that_is_lost() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let daemon = Daemon::start(&data, &["--segment-bytes", "1M"]);
    let mut client = daemon.client();
    client.done(&["SET", "early", "v"]);
    std::thread::sleep(Duration::from_millis(100));
    limit_descriptors(&daemon, Some(descriptor_next(&daemon)));
    let value = "x".repeat(60_000);
    let mut acknowledged = Vec::new();
    for number in 0..60 {
        match client.call(&["SET", &format!("k{number}"), &value]).expect("it answers") {
            Reply::Error(text) => eprintln!("k{number}: {text}"),
            _ => acknowledged.push(number),
        }
    }
    assert_eq!(client.get("early").as_deref(), Some("v"), "reads go on");
    daemon.kill();
    let daemon = Daemon::start(&data, &[]);
    let mut client = daemon.client();
    for number in acknowledged {
        assert_eq!(client.get(&format!("k{number}")).as_ref(), Some(&value), "k{number} was acknowledged");
    }
}

#[test]
fn two_thousand_idle_connections_do_not_keep_an_old_one_from_its_answer() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("up to the maximum is allowed");
    let directory = tempfile::tempdir().expect("a scratch directory");
    let daemon = Daemon::start(&directory.path().join("data"), &["--maxclients", "1500"]);
    let mut old = daemon.client();
    old.done(&["SET", "early", "v"]);
    let mut idle: Vec<Client> = (0..2000).map(|_| daemon.client()).collect();
    assert_eq!(old.get("early").as_deref(), Some("v"));
    let too_many = idle.last_mut().expect("two thousand").until_closed();
    assert!(too_many.contains("max number of clients"), "{too_many}");
    assert_eq!(old.info("maxclients"), "1500");
    assert_eq!(old.info("connected_clients"), "1500");
}
