//! Forms in JSON that differ from the fields they come from: maps and pairs as rows with named columns.

use holdup_trace::{CallNumber, Counter, ThreadUsage, Tid};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::facts::{Holder, LockName, OffTime, Reason};
use crate::finding::Moment;

/// The keys of an object of counters.
pub(crate) fn named_by_counter(schema: &mut Schema) {
    let names = Counter::json_schema(&mut SchemaGenerator::default());
    schema.insert("propertyNames".to_owned(), names.to_value());
}

/// The variable, where the name is one.
pub(crate) fn symbol<S: Serializer>(name: &LockName, serializer: S) -> Result<S::Ok, S::Error> {
    let known = match name {
        LockName::Symbol { name, offset } => Some(Symbol { name: name.clone(), offset: *offset }),
        LockName::Site(_) | LockName::Address => None,
    };
    known.serialize(serializer)
}

/// A variable.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Symbol {
    /// Its name, demangled.
    name: String,
    /// Where in it, in bytes.
    offset: u64,
}

/// A system call.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Calls {
    /// Its number on the machine's architecture.
    number: CallNumber,
    /// How often.
    count: u64,
}

impl From<(&CallNumber, &u64)> for Calls {
    fn from((number, count): (&CallNumber, &u64)) -> Calls {
        Calls { number: *number, count: *count }
    }
}

/// Time off CPU for one reason.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OffPart {
    /// Why.
    reason: Reason,
    /// Whether waiting for this is by design.
    idle: bool,
    /// How often, how long.
    #[serde(flatten)]
    time: OffTime,
}

impl From<(&Reason, &OffTime)> for OffPart {
    fn from((reason, time): (&Reason, &OffTime)) -> OffPart {
        OffPart { reason: *reason, idle: reason.is_idle(), time: *time }
    }
}

/// A holder's time off CPU for one reason.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HolderPart {
    /// Why, as in a thread.
    reason: Reason,
    /// How long in all.
    time_ns: u64,
}

impl From<(&Reason, &u64)> for HolderPart {
    fn from((reason, ns): (&Reason, &u64)) -> HolderPart {
        HolderPart { reason: *reason, time_ns: *ns }
    }
}

impl From<&(Tid, OffTime)> for Holder {
    fn from((tid, time): &(Tid, OffTime)) -> Holder {
        Holder { tid: *tid, count: time.count, ns: time.ns }
    }
}

impl From<&(Tid, u64, u64)> for Moment {
    fn from((tid, from_ns, to_ns): &(Tid, u64, u64)) -> Moment {
        Moment { tid: *tid, from_ns: *from_ns, to_ns: *to_ns }
    }
}

/// Readings of a lock word.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Words {
    /// How many.
    readings: u64,
    /// Of these, held.
    held: u64,
    /// Of these, held with waiters.
    contended: u64,
}

impl From<&(u64, u64, u64)> for Words {
    fn from((readings, held, contended): &(u64, u64, u64)) -> Words {
        Words { readings: *readings, held: *held, contended: *contended }
    }
}

/// What the kernel counted for a thread, where it was read.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Usages {
    /// At the first reading.
    usage_first: Option<ThreadUsage>,
    /// At the last.
    usage_last: Option<ThreadUsage>,
}

impl From<&Option<(ThreadUsage, ThreadUsage)>> for Usages {
    fn from(read: &Option<(ThreadUsage, ThreadUsage)>) -> Usages {
        let (usage_first, usage_last) = read.map_or((None, None), |(first, last)| (Some(first), Some(last)));
        Usages { usage_first, usage_last }
    }
}

/// CPU samples of a thread.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Hits {
    /// The thread.
    tid: Tid,
    /// How many.
    hits: u64,
}

impl From<&(Tid, u64)> for Hits {
    fn from((tid, hits): &(Tid, u64)) -> Hits {
        Hits { tid: *tid, hits: *hits }
    }
}
