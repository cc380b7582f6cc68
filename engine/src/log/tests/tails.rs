//! What is read back after cuts, tears and flipped bytes.
//! Guarantees: damage is either corruption or a torn last batch, never silently wrong.
//! Must not know: how the log is written.
//! Next: tail.rs has the table that is exercised here through bytes.

use super::*;
use crate::units::SegmentId;
use DurabilityLevel::Written;

const SEGMENT: usize = 64 << 10;
const FIRST: &str = "log/00000000000000000001.seg";

/// Three batches of one block each in one segment.
fn three() -> TestStorage {
    let mut rig = Rig::new(options());
    (0..3).for_each(|_| _ = rig.synced(1000));
    rig.storage
}

fn change(storage: &TestStorage, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> TestStorage {
    let copy = storage.copy();
    change(copy.0.lock().files.get_mut(name).unwrap());
    copy
}

fn case(result: Result<(LogEnd, Vec<u64>), Error>) -> char {
    match result {
        Ok((end, _)) => end.case,
        Err(Error::Corrupt(corrupt)) => corrupt.case,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_last_batch_torn_at_any_length_is_cut_whatever_stands_in_its_place() {
    let whole = three();
    let last = 3 * 4096..4 * 4096;
    let used = 4096 / 4;
    for length in (0..used + 100).step_by(13) {
        for filling in [0_u8, 0xa5] {
            let torn = change(&whole, FIRST, |bytes| bytes[last.start + length..last.end].fill(filling));
            let (end, seen) = read(&torn, Lsn(1), proof(2)).unwrap();
            if filling == 0 && length == 0 {
                assert_eq!((end.case, end.cut), ('F', None));
            } else if seen.len() == 2 {
                assert_eq!(end.case, 'H', "length {length}");
                let cut = Cut { segment: SegmentId(1), from: 3 * 4096, to: 4 * 4096 };
                assert_eq!(end.cut, Some(cut));
            }
            assert!(seen == [1, 2] || (filling == 0 && length > used && seen == [1, 2, 3]), "length {length}");
            assert!(length == 0 || filling == 0xa5 || read(&torn, Lsn(1), proof(3)).is_ok() == (seen.len() == 3));
        }
    }
}

#[test]
fn zeros_or_garbage_behind_the_end_lose_nothing() {
    let whole = three();
    for length in [1, 150, 511, 4096, 5000, SEGMENT - 4 * 4096] {
        let garbage = change(&whole, FIRST, |bytes| bytes[4 * 4096..4 * 4096 + length].fill(0x11));
        let (end, seen) = read(&garbage, Lsn(1), proof(3)).unwrap();
        assert_eq!((seen.len(), end.case), (3, 'H'));
        let longer = change(&whole, FIRST, |bytes| bytes.resize(SEGMENT + length, 0));
        let (end, seen) = read(&longer, Lsn(1), proof(3)).unwrap();
        assert_eq!((seen.len(), end.case), (3, 'F'));
    }
}

#[test]
fn a_file_cut_short_is_a_torn_tail_unless_something_proven_is_gone() {
    let whole = three();
    for (length, count, letter) in
        [(SEGMENT - 7, 3, 'H'), (4 * 4096, 3, 'H'), (4 * 4096 - 1, 2, 'H'), (3 * 4096, 2, 'H'), (4096, 0, 'H')]
    {
        let short = change(&whole, FIRST, |bytes| bytes.truncate(length));
        let (end, seen) = read(&short, Lsn(1), Proof::default()).unwrap();
        assert_eq!((seen.len(), end.case), (count, letter), "length {length}");
        assert_eq!(read(&short, Lsn(1), proof(3)).is_ok(), count == 3);
    }
    let nothing = change(&whole, FIRST, |bytes| bytes.truncate(100));
    assert_eq!(case(read(&nothing, Lsn(1), proof(1))), 'E');
    let known = Proof { segment: SegmentId(1), ..Proof::default() };
    assert_eq!(case(read(&nothing, Lsn(1), known)), 'L');
}

#[test]
fn damage_before_a_batch_that_knew_it_was_synced_is_corruption() {
    let damaged = change(&three(), FIRST, |bytes| bytes[4096 + 200] ^= 1);
    let Err(Error::Corrupt(corrupt)) = read(&damaged, Lsn(1), Proof::default()) else { panic!("not noticed") };
    assert_eq!((corrupt.case, corrupt.offset, corrupt.file.as_str()), ('D', 4096, FIRST));
}

#[test]
fn damage_before_batches_that_prove_nothing_is_torn_and_its_lsns_are_not_used_again() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    for _ in 0..3 {
        rig.append(Written, 10);
        rig.settle();
    }
    let torn = change(&rig.storage, FIRST, |bytes| bytes[2 * 4096 + 90] ^= 1);
    let (end, seen) = read(&torn, Lsn(1), proof(1)).unwrap();
    assert_eq!((end.case, seen), ('I', vec![1]));
    assert_eq!((end.last_lsn, end.next_lsn, end.next_sequence), (Lsn(1), Lsn(5), 5));
    assert_eq!(end.cut, Some(Cut { segment: SegmentId(1), from: 8192, to: 5 * 4096 }));

    let (mut again, _) = Rig::reopen(&torn, options());
    assert_eq!(again.synced(10), Lsn(5));
    again.storage.crash();
    let (end, seen) = read(&again.storage, Lsn(1), proof(5)).unwrap();
    assert_eq!((seen, end.spans.len()), (vec![1, 5], 2));
    assert_eq!(end.case, 'G', "the spare of the first life was used again");
    let (mut third, _) = Rig::reopen(&again.storage, options());
    assert_eq!(third.synced(10), Lsn(6));
    assert_eq!(read(&third.storage, Lsn(1), proof(6)).unwrap().1, [1, 5, 6]);
}

#[test]
fn a_crash_in_the_first_write_after_a_cut_leads_to_the_same_cut() {
    let torn = change(&three(), FIRST, |bytes| bytes[3 * 4096 + 100] ^= 1);
    let (mut again, before) = Rig::reopen(&torn, options());
    again.synced(1000);
    // The spare of the first life has been renamed: its old id is below a later segment's and is never used.
    let second = "log/00000000000000000003.seg";
    let header_lost = change(&again.storage, second, |bytes| bytes[..4096].fill(0));
    let (end, seen) = read(&header_lost, Lsn(1), proof(2)).unwrap();
    assert_eq!((seen, end.cut), (vec![1, 2], before.cut));
    assert_eq!(end.torn_files, [SegmentId(3)]);
    assert_eq!((end.next_lsn, end.next_segment), (Lsn(5), SegmentId(4)));
    let batch_lost = change(&again.storage, second, |bytes| bytes[4096..].fill(0));
    let (end, seen) = read(&batch_lost, Lsn(1), proof(2)).unwrap();
    assert_eq!((seen, end.next_lsn), (vec![1, 2], Lsn(5)));
    let (mut third, _) = Rig::reopen(&batch_lost, options());
    assert_eq!(third.synced(10), Lsn(5));
    assert_eq!(read(&third.storage, Lsn(1), proof(5)).unwrap().1, [1, 2, 5]);
}

#[test]
fn what_a_failed_sync_left_in_the_page_cache_is_written_again_before_it_counts() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    rig.append(Written, 10);
    rig.settle();
    // The process ends here, the kernel keeps the pages: the batch is read, and nothing proves it.
    rig.operations();
    let (again, end) = Rig::reopen(&rig.storage, options());
    assert_eq!((end.last_lsn, end.active.unwrap().proven), (Lsn(2), 8192), "the second batch proves the first");
    assert_eq!(again.operations(), ["write durable", "sync"]);
    again.storage.crash();
    assert_eq!(read(&again.storage, Lsn(1), proof(2)).unwrap().1, [1, 2]);
    let (end, _) = read(&again.storage, Lsn(1), proof(2)).unwrap();
    let active = end.active.unwrap();
    assert_eq!(active.proven, active.end, "what the manifest proves is not written again");
}

#[test]
fn a_gap_in_the_lsns_starts_a_new_segment_even_after_a_clean_stop() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    let (end, _) = read(&rig.storage, Lsn(1), proof(1)).unwrap();
    let position = LogPosition { next_lsn: Lsn(9), ..end.position(STORE, true) };
    let mut again = Rig::start(rig.storage.copy(), &position, options());
    assert_eq!(again.synced(10), Lsn(9));
    assert_eq!(read(&again.storage, Lsn(1), proof(9)).unwrap().1, [1, 9]);
}

/// Three segments; the last one holds several batches. With the LSN at which its last batch begins.
fn several() -> (TestStorage, u64) {
    let mut rig = Rig::new(options());
    while rig.log.spans().len() < 3 {
        rig.synced(7000);
    }
    (0..3).for_each(|_| _ = rig.synced(7000));
    let last = rig.log.watermarks().synced.0;
    (rig.storage, last)
}

#[test]
fn a_flipped_byte_anywhere_is_corruption_or_a_torn_last_batch() {
    let (whole, last) = several();
    let names: Vec<String> = whole.0.lock().files.keys().cloned().collect();
    let complete: Vec<u64> = (1..=last).collect();
    assert_eq!(read(&whole, Lsn(1), proof(last)).unwrap().1, complete);
    let mut refused = 0;
    for name in names {
        for place in (0..SEGMENT).filter(|place| place % 4096 < 96 || place % 37 == 0) {
            whole.0.lock().files.get_mut(&name).unwrap()[place] ^= 0x20;
            match read(&whole, Lsn(1), Proof::default()) {
                Ok((_, seen)) => {
                    assert!(seen.len() as u64 >= last - 1, "{name} at {place}: only {} left", seen.len());
                    assert_eq!(seen, complete[..seen.len()], "{name} at {place}");
                }
                Err(Error::Corrupt(_)) => refused += 1,
                Err(error) => panic!("{name} at {place}: {error}"),
            }
            whole.0.lock().files.get_mut(&name).unwrap()[place] ^= 0x20;
        }
    }
    assert!(refused > 1000, "most places are proven by something: {refused}");
}

#[test]
fn a_missing_or_foreign_segment_is_corruption() {
    let (whole, last) = several();
    let second = "log/00000000000000000002.seg";
    let missing = whole.copy();
    missing.0.lock().files.remove(second);
    assert_eq!(case(read(&missing, Lsn(1), proof(last))), 'L');
    let foreign = change(&whole, second, |bytes| bytes[16] ^= 1);
    assert_eq!(case(read(&foreign, Lsn(1), proof(last))), 'K');
    let newest_gone = whole.copy();
    newest_gone.0.lock().files.remove("log/00000000000000000003.seg");
    assert_eq!(case(read(&newest_gone, Lsn(1), proof(last))), 'E');
    let header_gone = change(&whole, "log/00000000000000000003.seg", |bytes| bytes[..4096].fill(0));
    assert_eq!(case(read(&header_gone, Lsn(1), Proof::default())), 'D');
    assert_eq!(read(&whole, Lsn(last + 1), proof(last)).unwrap().1, Vec::<u64>::new());
    assert_eq!(case(read(&whole, Lsn(last + 2), proof(last))), 'E', "a snapshot is ahead of the log");
}

#[test]
fn an_empty_directory_is_a_fresh_log_only_if_nothing_proves_otherwise() {
    let storage = TestStorage::new();
    let (end, _) = read(&storage, Lsn(1), Proof::default()).unwrap();
    assert_eq!((end.last_lsn, end.next_lsn, end.active), (Lsn(0), Lsn(1), None));
    assert_eq!(case(read(&storage, Lsn(1), proof(1))), 'E');
    let (end, _) = read(&storage, Lsn(101), proof(100)).unwrap();
    assert_eq!((end.last_lsn, end.next_lsn), (Lsn(100), Lsn(101)));
}

#[test]
fn an_inspection_reports_the_damage_and_the_batches_behind_it() {
    #[derive(Default)]
    struct Report {
        files: usize,
        before: Vec<u64>,
        behind: Vec<u64>,
        cases: Vec<char>,
        unreadable: Vec<(u64, u64)>,
    }
    impl Observer for Report {
        fn file(
            &mut self,
            _: SegmentId,
            _: u64,
            _: &Result<crate::format::segment::SegmentHeader, crate::format::Unreadable>,
        ) {
            self.files += 1;
        }
        fn batch(&mut self, batch: &Batch<'_>) {
            self.before.push(batch.header.sequence);
        }
        fn damage(&mut self, damage: &crate::error::Corrupt) {
            self.cases.push(damage.case);
        }
        fn batch_behind(&mut self, batch: &Batch<'_>) {
            self.behind.push(batch.header.sequence);
        }
        fn unreadable(&mut self, _: SegmentId, from: u64, to: u64) {
            self.unreadable.push((from, to));
        }
    }
    let damaged = change(&three(), FIRST, |bytes| bytes[2 * 4096 + 99] ^= 1);
    let mut report = Report::default();
    let end = inspect(&mut *damaged.disk(), STORE, proof(3), &mut report).unwrap();
    assert!(end.is_none());
    assert_eq!((report.files, report.before, report.behind), (report.files, vec![1], vec![3]));
    assert_eq!((report.cases, report.unreadable), (vec!['D'], vec![(8192, 12288)]));
}
