//! One run: a store, its clients, its medium and its clocks, moved on in an order that the seed decides.
//! Guarantees: a seed and a form give the same run, byte for byte; every step is followed by a look at what was promised.
//! Must not know: what single operations do.
//! Next: clients.rs and settle.rs have the steps, lives.rs the crashes between them.

use super::clients::Watched;
use super::form::{Form, Plan};
use super::model::{Model, SPACES, State};
use super::promises::Promises;
use super::trace::Trace;
use super::{Broken, Checked, broken};
use logd_engine::Keyspace;
use logd_engine::clock::{Clock, SimClock};
use logd_engine::core::StateView;
use logd_engine::db::Stepped;
use logd_engine::disk::{SimOptions, SimStorage};
use logd_engine::prng::Prng;
use logd_engine::units::{Millis, Nanos};
use std::collections::BTreeMap;

/// Wall time at which the simulated world begins.
const WALL_START: Millis = Millis(1_700_000_000_000);

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Sum over all it did and all bytes it left.
    pub digest: u64,
    /// Crashes in it.
    pub crashes: u64,
    /// The promise that was not kept.
    pub broken: Option<Broken>,
}

/// A frozen state that a client holds, and what should be in it.
pub struct HeldView {
    /// The engine's.
    pub view: StateView,
    /// The model's.
    pub state: State,
    /// Handles of its keyspaces.
    pub keyspaces: Vec<Option<Keyspace>>,
}

/// A run under way.
pub struct Run {
    /// The outer form.
    pub form: Form,
    /// The inner one.
    pub plan: Plan,
    /// Who is next.
    pub order: Prng,
    /// What clients do.
    pub client: Prng,
    /// What goes wrong.
    pub fault: Prng,
    /// What was done.
    pub trace: Trace,
    /// The clocks of the present boot.
    pub clock: SimClock,
    /// The present medium.
    pub storage: SimStorage,
    /// The store, while it is open.
    pub store: Option<Stepped>,
    /// Handles of the keyspaces that were made.
    pub keyspaces: Vec<Option<Keyspace>>,
    /// What is right.
    pub model: Model,
    /// What was told.
    pub promises: Promises,
    /// Views that are held.
    pub views: Vec<HeldView>,
    /// Keys that are watched.
    pub watched: Vec<Watched>,
    /// Kept bytes seen so far.
    pub quarantine: BTreeMap<String, Vec<u8>>,
    /// A failure was arranged in this life: errors are no surprise.
    pub is_faulty: bool,
    /// The disk was made small in this life.
    pub is_small: bool,
    /// The store may not grow, as of the last look.
    pub is_low: bool,
    /// How often growth was refused, as of then.
    pub refused_count: u64,
    /// The device is stuck.
    pub is_stuck: bool,
    /// Writes that had failed when the present store was opened.
    pub struck_before: u64,
    /// Last LSN when the first write of this life failed.
    pub struck_at: Option<u64>,
    /// Newest version of the procedures.
    pub version: u32,
    /// Value stamps given out.
    pub stamp: u64,
    /// Crashes so far.
    pub crashes: u64,
}

/// Runs a seed.
pub fn run_seed(seed: u64, form: &Form, printed: bool) -> Outcome {
    let mut run = Run::new(seed, form.clone(), printed);
    let result = run.all_lives();
    run.sum_up();
    Outcome { digest: run.trace.digest(), crashes: run.crashes, broken: result.err() }
}

impl Run {
    fn new(seed: u64, form: Form, printed: bool) -> Run {
        let prng = Prng::new(seed);
        let plan = Plan::draw(&mut prng.stream("plan"), &form);
        let options = SimOptions { seed, latency_steps_max: plan.latency, ..SimOptions::default() };
        let mut run = Run {
            order: prng.stream("order"),
            client: prng.stream("client"),
            fault: prng.stream("fault"),
            trace: Trace::new(printed),
            clock: SimClock::new(WALL_START),
            storage: SimStorage::new(options),
            store: None,
            keyspaces: vec![None; SPACES.len()],
            model: Model::default(),
            promises: Promises::default(),
            views: Vec::new(),
            watched: Vec::new(),
            quarantine: BTreeMap::new(),
            is_faulty: false,
            is_small: false,
            is_low: false,
            refused_count: 0,
            is_stuck: false,
            struck_before: 0,
            struck_at: None,
            version: 1,
            stamp: 0,
            crashes: 0,
            form,
            plan,
        };
        run.trace.note(format_args!("seed {seed}: {:?}", run.plan));
        run
    }

    /// Adds the bytes that are left on the medium to the sum.
    fn sum_up(&mut self) {
        for name in self.storage.names() {
            self.trace.sum_bytes(name.as_bytes());
            self.trace.sum_bytes(&self.storage.contents(&name).unwrap_or_default());
        }
    }

    fn all_lives(&mut self) -> Checked {
        for life in 0..self.plan.lives {
            self.trace.note(format_args!("life {life}"));
            self.open()?;
            self.live()?;
            self.end()?;
        }
        self.open()?;
        self.settle(true)?;
        self.check_everything()
    }

    fn live(&mut self) -> Checked {
        // Some lives end before anything of them is durable.
        let steps = match self.order.below(6) {
            0 => self.order.below(8),
            _ => self.plan.steps / 2 + self.order.below(self.plan.steps / 2 + 1),
        };
        for _ in 0..steps {
            if self.storage.is_dead() && self.order.one_in(6) {
                break;
            }
            self.step()?;
            self.look()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Checked {
        let total: u64 = self.plan.weights.iter().sum();
        let mut draw = self.order.below(total);
        let mut choice = 0;
        while draw >= self.plan.weights[choice] {
            draw -= self.plan.weights[choice];
            choice += 1;
        }
        match choice {
            0 => (0..self.plan.burst).try_for_each(|_| {
                self.client_step()?;
                self.look()
            }),
            1 => self.writer_step(),
            2 => self.maintenance_step(),
            3 => {
                self.storage.step();
                Ok(())
            }
            4 => {
                self.advance_clock();
                Ok(())
            }
            _ => self.rare_step(),
        }
    }

    /// Sees who can be told, and that nothing failed by itself.
    pub fn look(&mut self) -> Checked {
        let Some(store) = &self.store else { return Ok(()) };
        if let Some(failed) = store.db().failure()
            && !self.is_faulty
            && !self.storage.is_dead()
        {
            return broken("failure", format!("the log failed by itself: {failed}"));
        }
        let marks = store.db().watermarks();
        if self.struck_at.is_none() && self.storage.writes_struck() > self.struck_before {
            self.struck_at = Some(marks.assigned.0);
        }
        if self.struck_at.is_some_and(|last| marks.synced.0 > last) {
            return broken("latch", format!("LSN {} was synced after a failed write or sync", marks.synced));
        }
        self.promises.look(store.db(), &mut self.model, self.clock.monotonic())
    }

    /// The open store.
    pub fn opened(&mut self) -> &mut Stepped {
        self.store.as_mut().expect("the store is open during a life")
    }

    /// One step of the writer.
    pub fn writer_step(&mut self) -> Checked {
        let next = self.opened().step_writer();
        self.trace.note(format_args!("writer: {next:?}"));
        Ok(())
    }

    fn advance_clock(&mut self) {
        let micros = self.plan.clock_micros;
        let micros = match self.order.below(20) {
            0 => micros * 40,
            1 => 1_100_000,
            _ => 1 + self.order.below(2 * micros),
        };
        self.clock.advance(Nanos(micros * 1000));
        self.trace.note(format_args!("clock: +{micros} us, {:?}", self.clock.monotonic()));
    }

    /// A new stamp for a value.
    pub fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp << 20 | self.client.below(1 << 20)
    }
}
