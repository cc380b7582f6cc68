//! The two threads of an open store: one writes the log, one does the maintenance. The only place that starts threads.
//! Guarantees: both end when the store is closed; a panic in either latches the log instead of leaving callers waiting.
//! Must not know: what the drivers do.
//! Next: log/writer.rs and maintenance.rs.

use crate::core::Core;
use crate::error::{Error, Failed};
use crate::log::{LogWriter, Next};
use crate::maintenance::Maintenance;
use crate::recovery::{Job, Parallel};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// How far snapshots and segment preparation step back behind everything else, in the scheduler's units.
const MAINTENANCE_NICE: i32 = 10;

/// The running threads.
pub struct Threads {
    writer: JoinHandle<Option<LogWriter>>,
    maintenance: JoinHandle<Option<Maintenance>>,
    stop: Arc<AtomicBool>,
}

impl Threads {
    /// Starts both.
    pub fn start(core: &Arc<Core>, writer: LogWriter, maintenance: Maintenance) -> Result<Threads, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let (of_writer, of_maintenance) = (Arc::clone(core), Arc::clone(core));
        let stopped = Arc::clone(&stop);
        let writer = spawn("logd-log", move || guard(&of_writer, "log", |core| write_log(core, writer)))?;
        let maintenance = spawn("logd-maint", move || {
            guard(&of_maintenance, "maintenance", |core| maintain(core, maintenance, &stopped))
        })?;
        Ok(Threads { writer, maintenance, stop })
    }

    /// Waits for both to end; the log must have been closed. Gives the drivers back, for the last steps.
    pub fn join(self, core: &Core) -> (Option<LogWriter>, Option<Maintenance>) {
        let writer = self.writer.join().ok().flatten();
        self.stop.store(true, Ordering::SeqCst);
        core.wake_maintenance();
        (writer, self.maintenance.join().ok().flatten())
    }
}

fn write_log(core: &Core, mut writer: LogWriter) -> LogWriter {
    loop {
        let now = core.time.monotonic();
        match writer.step(now) {
            Next::Closed => return writer,
            next => writer.wait(next, now),
        }
    }
}

fn maintain(core: &Core, mut maintenance: Maintenance, stop: &AtomicBool) -> Maintenance {
    // Best effort: without the right to be nicer the work is done all the same.
    let _ = rustix::process::setpriority_process(None, MAINTENANCE_NICE);
    while !stop.load(Ordering::SeqCst) {
        let now = core.time.monotonic();
        let next = maintenance.step(now);
        maintenance.wait(next, now);
    }
    maintenance
}

/// Runs a driver; if it panics, the log latches, so that nobody waits for ever and nothing more is acknowledged.
fn guard<R>(core: &Core, name: &str, run: impl FnOnce(&Core) -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(|| run(core))).map_err(|_| core.log.latch(panicked(name))).ok()
}

fn panicked(name: &str) -> Failed {
    Failed {
        operation: "run",
        file: format!("{name} thread"),
        reason: "it panicked; see the messages before".to_owned(),
    }
}

fn spawn<R: Send + 'static>(name: &str, run: impl FnOnce() -> R + Send + 'static) -> Result<JoinHandle<R>, Error> {
    let failed = |error: std::io::Error| Failed {
        operation: "start",
        file: format!("thread {name}"),
        reason: error.to_string(),
    };
    Ok(Builder::new().name(name.to_owned()).spawn(run).map_err(failed)?)
}

/// Runs jobs on a number of threads: loading a snapshot at start.
pub struct ThreadPool {
    /// Threads; at least one.
    pub threads: usize,
}

impl Parallel for ThreadPool {
    fn run<'a>(&self, jobs: Vec<Job<'a>>) {
        let queue = parking_lot::Mutex::new(jobs.into_iter());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    loop {
                        let Some(job) = queue.lock().next() else { break };
                        job();
                    }
                });
            }
        });
    }
}
