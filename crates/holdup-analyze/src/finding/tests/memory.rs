//! Devices, address space, page faults and allocators.

use super::*;

pub(super) fn syncing() -> Facts {
    let mut facts = quiet(2);
    off(&mut facts, 1, Reason::Io, 10, 200 * MS);
    facts.blame = vec![blamed(1, None, Leaf::Io, 1, 200 * MS)];
    facts
}

#[test]
fn io_bound_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::IoBound,
        syncing,
        &[
            ("it takes little time", |facts| facts.blame[0].ns = 199 * MS),
            ("no thread waits for a device", |facts| facts.threads[1].off.clear()),
            ("threads do more beside it", |facts| spent(facts, 0, AccountState::Running, 900 * MS)),
        ],
    );
}

#[test]
fn what_reads_is_no_slower_for_what_is_written() {
    let told = |function: &str| {
        let mut facts = syncing();
        facts.blame[0].site = Some(site(function));
        let finding = judge(Kind::IoBound, &facts).remove(0);
        (finding.subjects[0].clone(), finding.cure)
    };
    let call = |name: &str| Subject::Function(name.to_owned());
    assert_eq!(told("__GI___libc_read"), (call("read"), Cure::FewerReads));
    assert_eq!(told("getdents64"), (call("getdents64"), Cure::FewerReads));
    assert_eq!(told("__libc_pwrite64"), (call("pwrite64"), Cure::FasterIo));
    assert_eq!(told("fdatasync"), (call("fdatasync"), Cure::FasterIo));
}

pub(super) fn mapping() -> Facts {
    let mut facts = quiet(3);
    off(&mut facts, 1, Reason::Memory, 10, 25 * MS);
    off(&mut facts, 2, Reason::Memory, 10, 25 * MS);
    facts
}

#[test]
fn memory_lock_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::MemoryLock,
        mapping,
        &[
            ("waits are too short", |facts| off(facts, 2, Reason::Memory, 10, 24 * MS)),
            ("one thread alone waits", |facts| {
                facts.threads[2].off.clear();
                off(facts, 1, Reason::Memory, 10, 50 * MS);
            }),
        ],
    );
}

#[test]
fn arenas_are_tried_only_where_an_allocator_maps() {
    let proof = |functions: &[&str]| {
        let mut facts = mapping();
        let call_path = functions.iter().map(|function| Frame::named(function, Role::Runtime)).collect();
        facts.blame = vec![Blame {
            site: Some(Site { call_path, count: 1, ns: 1 }),
            ..blamed(1, None, Leaf::Memory, 1, 25 * MS)
        }];
        judge(Kind::MemoryLock, &facts).remove(0).proof.words.join(" ")
    };
    assert!(proof(&["__GI___mmap64", "sysmalloc", "malloc"]).contains("--arenas"));
    assert!(proof(&["memset"]).contains("--arenas"), "a page fault, in memory of any origin");
    assert!(!proof(&["__GI___mmap64", "apr_mmap_create"]).contains("--arenas"));
}

pub(super) fn faulting() -> Facts {
    let mut facts = quiet(2);
    busy(&mut facts, 250 * MS);
    (facts.totals.user_samples, facts.totals.kernel_samples) = (200, Some(50));
    let handler = Frame::named("exc_page_fault", Role::Kernel);
    facts.symbols = vec![Code { frame: handler, hits: 0, inclusive: 50 }];
    facts.kernel_sites = vec![site("fill")];
    facts
}

#[test]
fn page_faults_at_their_thresholds() {
    holds_at_its_thresholds(
        Kind::PageFaults,
        faulting,
        &[
            ("samples are too few", |facts| facts.symbols[0].inclusive = 49),
            ("the share is too small", |facts| facts.totals.user_samples = 201),
        ],
    );
    let mut facts = quiet(2);
    off(&mut facts, 1, Reason::PageFault, 100, 200 * MS);
    assert_eq!(judge(Kind::PageFaults, &facts)[0].cure, Cure::PagesAhead, "pages from a device");
    assert_eq!(judge(Kind::PageFaults, &faulting())[0].cure, Cure::LargerPages);
}

#[test]
fn page_faults_are_counted_where_the_kernel_is_not_sampled() {
    let share = |faults, kernel_samples| {
        let mut facts = quiet(2);
        facts.totals.kernel_samples = kernel_samples;
        let (user_ns, kernel_ns) = (Some(200 * MS), Some(300 * MS));
        facts.ending = Some(Ending { user_ns, kernel_ns, faults: Some(faults), ..Ending::default() });
        judge(Kind::PageFaults, &facts).first().map(|finding| weigh::value(finding, "fault_share"))
    };
    assert_eq!(share(50_000, None), Some(0.2));
    assert_eq!(share(49_999, None), None);
    assert_eq!(share(500_000, None), Some(0.6), "no more than the kernel used");
    assert_eq!(share(500_000, Some(1)), None, "samples know better");
}

#[test]
fn page_faults_have_the_place_of_those_that_were_sampled() {
    let mut facts = quiet(2);
    let (user_ns, kernel_ns) = (Some(200 * MS), Some(300 * MS));
    facts.ending = Some(Ending { user_ns, kernel_ns, faults: Some(100_000), ..Ending::default() });
    facts.fault_sites = vec![site("fill")];
    let found = judge(Kind::PageFaults, &facts);
    assert_eq!(found[0].subjects, [Subject::Function("fill".to_owned())]);
    assert!(found[0].place.is_some());
}

pub(super) fn allocating() -> Facts {
    let mut facts = quiet(4);
    mutex(&mut facts, 30, MS);
    mutex(&mut facts, 30, MS);
    for lock in &mut facts.locks {
        lock.primitive = Primitive::Libc;
        lock.wait_sites = vec![Site {
            call_path: vec![Frame::named("malloc", Role::Runtime), Frame::named("parse", Role::Program)],
            count: 30,
            ns: 1,
        }];
    }
    facts
}

#[test]
fn allocator_at_its_thresholds() {
    holds_at_its_thresholds(
        Kind::Allocator,
        allocating,
        &[
            ("arenas are hardly waited for", |facts| {
                facts.locks.iter_mut().for_each(|lock| lock.wait_ns = histogram(20, MS));
            }),
            ("libc's lock is another", |facts| {
                facts.locks.iter_mut().for_each(|lock| lock.wait_sites = vec![site("fputs")]);
            }),
        ],
    );
    assert!(judge(Kind::HotLock, &allocating()).is_empty(), "all arenas are one finding");
}
