//! One store under measurement: opened, loaded, run as often as is asked.
//! Guarantees: a run with the same number asks the same of every store; a blocking store gets a thread for every operation
//! outstanding, any other the threads of the plan.
//! Must not know: which workload it is; how figures are shown.
//! Next: store.rs runs one of them, compare.rs several in turns.

use crate::args::{LoadArguments, StoreSpec};
use crate::device::{Device, DeviceCounters};
use crate::hlog::LoggedInterval;
use crate::measure::{Parts, Plan, Run, measure};
use crate::place::Place;
use crate::report::Interval;
use crate::report::store::RunFigures;
use crate::target::{StoreOptions, StoreTarget, TargetError, open};
use crate::workload::Workload;
use crate::workload::distribution::Zipfian;
use crate::workload::filling::FillingWorkload;
use crate::workload::mixed::{Counts, Mix, MixedWorkload, zipfian_of};
use crate::workload::operation::Operation;
use crate::workload::queue::QueueWorkload;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// A workload that counts what became of its operations.
pub trait Counting: Workload<Request = Operation> + Send {
    /// The counts.
    fn counts(&self) -> &Counts;
}

impl Counting for MixedWorkload {
    fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Counting for FillingWorkload {
    fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Counting for QueueWorkload {
    fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// A mix with what its streams share.
#[derive(Clone)]
pub struct Prepared {
    /// The mix.
    pub mix: Arc<Mix>,
    zipfian: Option<Arc<Zipfian>>,
}

impl Prepared {
    /// Prepares a mix.
    pub fn new(mix: Mix) -> Prepared {
        let zipfian = zipfian_of(&mix);
        Prepared { mix: Arc::new(mix), zipfian }
    }
}

/// A run as figures, and its seconds for the log.
pub struct Measured {
    /// The figures.
    pub figures: RunFigures,
    /// When measuring began.
    pub begun: SystemTime,
    /// The seconds.
    pub logged: Vec<LoggedInterval>,
}

/// A store under measurement.
pub struct Contender {
    /// Its name.
    pub spec: StoreSpec,
    /// The store.
    pub target: Box<dyn StoreTarget>,
    /// What it says of itself.
    pub about: String,
    device: Option<Device>,
    /// The directory; goes away with this if it is temporary.
    place: Place,
}

impl Contender {
    /// Opens a store. `parent`: where its directory is made; a given directory of a single store is used as it is.
    pub fn open(spec: &StoreSpec, place: Place, options: StoreOptions) -> Result<Contender, TargetError> {
        let target = open(spec, &place.path(), options)?;
        let about = target.describe();
        let device = if spec.is_local() { Device::under(&place.path()) } else { None };
        Ok(Contender { spec: spec.clone(), target, about, device, place })
    }

    /// Its directory.
    pub fn path(&self) -> PathBuf {
        self.place.path()
    }

    /// What went to its device so far.
    pub fn device_counters(&self) -> Option<DeviceCounters> {
        self.device.as_ref().and_then(Device::counters)
    }

    /// Puts the records of a mix there.
    pub fn load(&self, mix: &Mix) -> Result<(), TargetError> {
        self.target.load(&mut (0..mix.records).map(|number| mix.loading(number)))
    }

    /// The plan for this store: as many operations outstanding, in its own form.
    pub fn plan(&self, plan: &Plan) -> Plan {
        if self.spec.is_blocking() { Plan { clients: plan.outstanding, ..*plan } } else { *plan }
    }

    /// Makes run number `run` of a mix.
    pub fn run(&self, plan: &Plan, mix: &Prepared, seed: u64, run: u64, line: &(dyn Fn(&Interval) + Sync)) -> Measured {
        let plan = self.plan(plan);
        let new = |client| MixedWorkload::new(&mix.mix, &mix.zipfian, seed, run, client, plan.clients);
        self.run_of(&plan, &new, run, line)
    }

    /// Inserts every record of a mix, measured.
    pub fn fill(&self, plan: &Plan, mix: &Prepared, line: &(dyn Fn(&Interval) + Sync)) -> Measured {
        let requests = Some(mix.mix.records);
        let plan = Plan { requests, warmup: std::time::Duration::ZERO, rate: None, ..self.plan(plan) };
        self.run_of(&plan, &|client| FillingWorkload::new(&mix.mix, client, plan.clients), 0, line)
    }

    /// Makes a run of any workload over operations.
    pub fn run_of<W: Counting>(
        &self,
        plan: &Plan,
        workload: &(dyn Fn(u32) -> W + Sync),
        run: u64,
        line: &(dyn Fn(&Interval) + Sync),
    ) -> Measured {
        let parts = Parts {
            workload,
            open: &|| self.target.session().map_err(|error| error.to_string()),
            snapshots: &|| self.target.snapshots(),
            device: &|| self.device_counters(),
            line,
        };
        figures(measure(plan, &parts), run)
    }
}

/// Turns a run into figures.
pub fn figures<W: Counting>(run: Run<W>, number: u64) -> Measured {
    let mut counts = Counts::default();
    run.workloads.iter().for_each(|workload| counts.add(workload.counts()));
    let figures = RunFigures::of(&run, number, counts);
    Measured { figures, begun: run.begun, logged: run.logged }
}

/// The place of one store: the given directory, or one made for it.
pub fn place_for(spec: &StoreSpec, load: &LoadArguments, is_alone: bool) -> std::io::Result<Place> {
    if is_alone || !spec.is_local() {
        return Place::choose(spec.is_local(), load.dir.as_deref());
    }
    Place::temporary(load.dir.as_deref().unwrap_or(Path::new(".")))
}
