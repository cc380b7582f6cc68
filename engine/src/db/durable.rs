//! Waiting for durability: by blocking, as a future, by callback, or with one notice for many.
//! Guarantees: a ticket is released when the watermark of its level has reached its LSN, and not before; after a disk
//! failure every waiter gets the error.
//! Must not know: how batches are formed.
//! Next: log/ holds the watermarks.

use super::Db;
use crate::core::Ticket;
use crate::error::{Error, Refused};
use crate::limits::BLOCK_BYTES;
use crate::log::{Purpose, Subscriber, Waiter, Watermarks};
use crate::units::{Lsn, Nanos};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

impl Db {
    /// Blocks until a write is durable at its level. `limit`: `None` for as long as it takes.
    /// Errors: `Refused::TimedOut` (the write goes on), `Failed`.
    pub fn wait(&self, ticket: Ticket, limit: Option<Duration>) -> Result<(), Error> {
        self.inner.core.log.wait(ticket.lsn, ticket.level, limit.map(nanos))
    }

    /// Whether a write is durable at its level.
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        self.inner.core.log.is_released(ticket.lsn, ticket.level)
    }

    /// A future that ends when a write is durable at its level. Needs no runtime.
    pub fn durable(&self, ticket: Ticket) -> Durable {
        Durable { db: self.clone(), ticket }
    }

    /// Calls back, from the thread that writes the log, when a write is durable or has failed. The callback must be short.
    pub fn on_durable(&self, ticket: Ticket, callback: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.inner.core.log.register(ticket.lsn, ticket.level, Waiter::Call(Box::new(callback)));
    }

    /// How far the log has come.
    pub fn watermarks(&self) -> Watermarks {
        self.inner.core.log.watermarks()
    }

    /// Asks that everything written so far be synced without waiting for the lag, and says up to which LSN.
    pub fn request_sync(&self) -> Lsn {
        let lsn = self.inner.core.log.request_sync();
        self.inner.core.wake_writer();
        lsn
    }

    /// Blocks until the log may take any writes again after `Refused::Busy`, or the time has passed.
    /// Errors: `Full`, `Failed`, `Closed`: waiting longer would not help.
    pub fn wait_writable(&self, limit: Option<Duration>) -> Result<(), Error> {
        self.wait_room(Purpose::Grow, limit)
    }

    /// The same after an attempt of unknown purpose: what makes the store smaller may go on where nothing else does.
    pub(super) fn wait_any_room(&self, limit: Duration) -> Result<(), Error> {
        match self.wait_room(Purpose::Grow, Some(limit)) {
            Err(Error::Full(_)) => self.wait_room(Purpose::Shrink, Some(limit)),
            done => done,
        }
    }

    fn wait_room(&self, purpose: Purpose, limit: Option<Duration>) -> Result<(), Error> {
        match self.inner.core.log.wait_room(BLOCK_BYTES, purpose, limit.map(nanos)) {
            Err(Error::Refused(Refused::Busy)) => Ok(()),
            done => done,
        }
    }

    /// Has `notice` called once after the next advance of the watermarks, latch or change of space, whenever the subscription
    /// was armed before: one wake-up a batch for an event loop that holds many tickets. It must be short.
    pub fn subscribe(&self, notice: Arc<dyn Fn() + Send + Sync>) -> Subscription {
        Subscription { subscriber: self.inner.core.log.subscribe(notice) }
    }
}

fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// A standing wish to be told of progress. Ends when dropped.
pub struct Subscription {
    subscriber: Arc<Subscriber>,
}

impl Subscription {
    /// Asks for one call at the next progress. Check what you wait for after arming, or a step between is missed.
    pub fn arm(&self) {
        self.subscriber.arm();
    }
}

/// Ends when a write is durable at its level.
pub struct Durable {
    db: Db,
    ticket: Ticket,
}

impl Future for Durable {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let log = &self.db.inner.core.log;
        if log.is_released(self.ticket.lsn, self.ticket.level) {
            return Poll::Ready(Ok(()));
        }
        if let Some(failed) = log.failure() {
            return Poll::Ready(Err(failed.into()));
        }
        log.register(self.ticket.lsn, self.ticket.level, Waiter::Waker(context.waker().clone()));
        Poll::Pending
    }
}
