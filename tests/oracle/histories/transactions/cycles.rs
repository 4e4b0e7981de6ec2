//! The checker of transactions that append to lists: whether they can have been isolated as they say.
//!
//! Values are unique, so the lists at the end say which transaction made which version, and every list that was read shows
//! whose version it was. From that come the edges: *ww* from the maker of a version to that of the next one, *wr* from a maker
//! to a reader, *rw* from a reader to the maker of the next version; and one transaction is before another if it returned
//! before the other one began. Each transaction has a moment at which it reads and a later one at which it writes. *ww*, *wr*
//! and time lead from the second moment of one to the first of another, *rw* from the first to the second. Snapshots are kept
//! exactly if that has no cycle, which is to say that each cycle of transactions has two *rw* side by side. For serializable
//! transactions both moments are one.
//!
//! A transaction that was aborted is one that only read.

use std::collections::BTreeMap;

use crate::histories::history::Record;
use crate::histories::lists::Key;

/// The work of a transaction, in the order of its statements.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Append {
        key: Key,
        value: i64,
    },
    /// A list that is not there is empty.
    Read {
        key: Key,
        list: Vec<i64>,
    },
}

/// A transaction, or a plain call, which is one by itself.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) steps: Vec<Step>,
    pub(crate) is_committed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Snapshot,
    Serializable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    WriteWrite,
    WriteRead,
    ReadWrite,
}

/// Which edges may have no cycle, and what one is called.
struct Ban {
    name: &'static str,
    kinds: &'static [Kind],
    /// Whether a transaction reads at another moment than it writes.
    has_two_moments: bool,
    has_time: bool,
}

const ALL: &[Kind] = &[Kind::WriteWrite, Kind::WriteRead, Kind::ReadWrite];

/// Each has the edges of those before it.
const BANS: [Ban; 4] = [
    Ban { name: "G0", kinds: &[Kind::WriteWrite], has_two_moments: false, has_time: false },
    Ban { name: "G1c", kinds: &[Kind::WriteWrite, Kind::WriteRead], has_two_moments: false, has_time: false },
    Ban { name: "G-single", kinds: ALL, has_two_moments: true, has_time: false },
    Ban { name: "against the time", kinds: ALL, has_two_moments: true, has_time: true },
];
const SERIALIZABLE: Ban = Ban { name: "G2", kinds: ALL, has_two_moments: false, has_time: true };

/// An append, found by its value.
#[derive(Clone, Copy)]
struct Append {
    by: usize,
    key: Key,
    is_last: bool,
}

/// The transactions of a run, and the lists at its end.
struct Run<'a> {
    transactions: &'a [Record<Transaction>],
    end: &'a BTreeMap<Key, Vec<i64>>,
    appends: BTreeMap<i64, Append>,
    edges: Vec<(usize, usize, Kind)>,
}

/// Rejects transactions that the level rules out. Of others it says whether they are serializable.
pub(crate) fn check_transactions(
    transactions: &[Record<Transaction>],
    end: &BTreeMap<Key, Vec<i64>>,
    level: Level,
) -> Result<bool, String> {
    let mut run = Run { transactions, end, appends: appends_of(transactions)?, edges: Vec::new() };
    run.check_end()?;
    for by in 0..transactions.len() {
        run.check_reads(by)?;
    }
    for ban in &BANS {
        run.check(ban)?;
    }
    let checked = run.check(&SERIALIZABLE);
    match level {
        Level::Serializable => checked.map(|()| true),
        Level::Snapshot => Ok(checked.is_ok()),
    }
}

fn appends_of(transactions: &[Record<Transaction>]) -> Result<BTreeMap<i64, Append>, String> {
    let mut appends = BTreeMap::new();
    for (by, transaction) in transactions.iter().enumerate() {
        let mut last: BTreeMap<Key, i64> = BTreeMap::new();
        for step in &transaction.event.steps {
            let Step::Append { key, value } = step else { continue };
            if appends.insert(*value, Append { by, key: *key, is_last: true }).is_some() {
                return Err(format!("{value} was appended twice"));
            }
            if let Some(append) = last.insert(*key, *value).and_then(|before| appends.get_mut(&before)) {
                append.is_last = false;
            }
        }
    }
    Ok(appends)
}

impl Run<'_> {
    fn name(&self, by: usize) -> String {
        format!("{:?}", self.transactions.get(by))
    }

    fn is_committed(&self, append: &Append) -> bool {
        self.transactions.get(append.by).is_some_and(|transaction| transaction.event.is_committed)
    }

    /// The append of a value that a list has.
    fn append(&self, key: Key, value: i64) -> Result<Append, String> {
        match self.appends.get(&value) {
            Some(append) if append.key != key => {
                Err(format!("list {key} has {value}, which was appended to {}", append.key))
            }
            Some(append) if !self.is_committed(append) => {
                Err(format!("G1a: list {key} has {value}, which was aborted: {}", self.name(append.by)))
            }
            Some(append) => Ok(*append),
            None => Err(format!("list {key} has {value}, which no call appended")),
        }
    }

    /// The lists at the end have what was committed, once, and nothing else.
    fn check_end(&mut self) -> Result<(), String> {
        let mut stored = BTreeMap::new();
        for (key, list) in self.end {
            let mut before: Option<usize> = None;
            for value in list {
                let Append { by, .. } = self.append(*key, *value)?;
                if stored.insert(*value, by).is_some() {
                    return Err(format!("list {key} has {value} twice: {list:?}"));
                }
                if let Some(before) = before.filter(|before| *before != by) {
                    self.edges.push((before, by, Kind::WriteWrite));
                }
                before = Some(by);
            }
        }
        let is_lost =
            |(value, append): &(&i64, &Append)| self.is_committed(append) && !stored.contains_key(value);
        match self.appends.iter().find(is_lost) {
            Some((value, append)) => Err(format!("{value} was lost: {}", self.name(append.by))),
            None => Ok(()),
        }
    }

    fn check_reads(&mut self, by: usize) -> Result<(), String> {
        let Some(transaction) = self.transactions.get(by) else { return Ok(()) };
        let mut own: BTreeMap<Key, Vec<i64>> = BTreeMap::new();
        for step in &transaction.event.steps {
            match step {
                Step::Append { key, value } => own.entry(*key).or_default().push(*value),
                Step::Read { key, list } => {
                    let own = own.get(key).map_or(&[][..], Vec::as_slice);
                    let seen = list
                        .strip_suffix(own)
                        .ok_or_else(|| format!("its own appends are not in list {key}: {}", self.name(by)))?;
                    self.check_read(by, *key, seen)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the edges of a read, which saw this of what others appended.
    fn check_read(&mut self, by: usize, key: Key, seen: &[i64]) -> Result<(), String> {
        for value in seen {
            self.append(key, *value)?;
        }
        let end = self.end.get(&key).map_or(&[][..], Vec::as_slice);
        let Some(later) = end.strip_prefix(seen) else {
            return Err(format!("list {key} was never {seen:?}, it became {end:?}: {}", self.name(by)));
        };
        if let Some(value) = seen.last() {
            let made = self.append(key, *value)?;
            if !made.is_last || made.by == by {
                return Err(format!(
                    "G1b: {value} was not the last that its transaction appended to {key}: {} read by {}",
                    self.name(made.by),
                    self.name(by)
                ));
            }
            self.edges.push((made.by, by, Kind::WriteRead));
        }
        if let Some(value) = later.first() {
            let next = self.append(key, *value)?;
            if next.by != by {
                self.edges.push((by, next.by, Kind::ReadWrite));
            }
        }
        Ok(())
    }

    /// Rejects a cycle of such edges.
    fn check(&self, ban: &Ban) -> Result<(), String> {
        let count = self.transactions.len();
        let reads = |by: usize| 2 * by;
        let writes = |by: usize| 2 * by + usize::from(ban.has_two_moments);
        // The moments of the transactions, then those of the clock.
        let mut later: Vec<Vec<usize>> = vec![Vec::new(); 4 * count];
        let mut lead = |from: usize, to: usize| later.get_mut(from).expect("a moment").push(to);
        for (from, to, kind) in &self.edges {
            match kind {
                kind if !ban.kinds.contains(kind) => {}
                Kind::WriteWrite | Kind::WriteRead => lead(writes(*from), reads(*to)),
                Kind::ReadWrite => lead(reads(*from), writes(*to)),
            }
        }
        if ban.has_two_moments {
            for by in 0..count {
                lead(reads(by), writes(by));
            }
        }
        if ban.has_time {
            let mut ticks = Vec::new();
            for (by, transaction) in self.transactions.iter().enumerate() {
                ticks.push((transaction.span.begun, false, by));
                ticks.push((transaction.span.ended, true, by));
            }
            ticks.sort_unstable();
            for (place, (_, is_end, by)) in ticks.iter().enumerate() {
                let moment = 2 * count + place;
                if *is_end {
                    lead(writes(*by), moment);
                } else {
                    lead(moment, reads(*by));
                }
                if place > 0 {
                    lead(moment - 1, moment);
                }
            }
        }
        let Some(cycle) = cycle(&later) else { return Ok(()) };
        let mut words: Vec<String> = Vec::new();
        for by in cycle.into_iter().filter(|moment| *moment < 2 * count).map(|moment| moment / 2) {
            let name = self.name(by);
            if words.last() != Some(&name) {
                words.push(name);
            }
        }
        Err(format!("{}: a cycle of\n{}", ban.name, words.join("\n")))
    }
}

/// Nodes of which each leads to the next, and the last one to the first.
fn cycle(later: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut before = vec![0_usize; later.len()];
    for to in later.iter().flatten() {
        *before.get_mut(*to).expect("a node") += 1;
    }
    let mut free: Vec<usize> = (0..later.len()).filter(|node| before.get(*node) == Some(&0)).collect();
    while let Some(node) = free.pop() {
        for to in later.get(node).expect("a node") {
            let count = before.get_mut(*to).expect("a node");
            *count -= 1;
            if *count == 0 {
                free.push(*to);
            }
        }
    }
    // Each node that is left has one before it that is left too.
    let is_left = |node: &usize| before.get(*node).is_some_and(|count| *count > 0);
    let mut earlier: BTreeMap<usize, usize> = BTreeMap::new();
    for (node, to) in later.iter().enumerate().filter(|(node, _)| is_left(node)) {
        earlier.extend(to.iter().filter(|to| is_left(to)).map(|to| (*to, node)));
    }
    let mut node = *earlier.keys().next()?;
    let mut walk = Vec::new();
    loop {
        if let Some(start) = walk.iter().position(|walked| *walked == node) {
            let mut found = walk.split_off(start);
            found.reverse();
            return Some(found);
        }
        walk.push(node);
        node = *earlier.get(&node)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histories::history::at;

    /// All at the same time, so that only what they read and wrote orders them.
    fn done(steps: &[Step]) -> Record<Transaction> {
        at(0, 1000, Transaction { steps: steps.to_vec(), is_committed: true })
    }

    fn aborted(steps: &[Step]) -> Record<Transaction> {
        at(0, 1000, Transaction { steps: steps.to_vec(), is_committed: false })
    }

    fn w(key: Key, value: i64) -> Step {
        Step::Append { key, value }
    }

    fn r(key: Key, list: &[i64]) -> Step {
        Step::Read { key, list: list.to_vec() }
    }

    fn checked(
        transactions: &[Record<Transaction>],
        end: &[(Key, &[i64])],
        level: Level,
    ) -> Result<bool, String> {
        let end = end.iter().map(|(key, list)| (*key, list.to_vec())).collect();
        check_transactions(transactions, &end, level)
    }

    /// Both levels rule it out.
    #[track_caller]
    fn refused(transactions: &[Record<Transaction>], end: &[(Key, &[i64])], words: &str) {
        for level in [Level::Snapshot, Level::Serializable] {
            let found = checked(transactions, end, level).expect_err("an anomaly");
            assert!(found.contains(words), "{found}");
        }
    }

    /// No level rules it out.
    #[track_caller]
    fn accepted(transactions: &[Record<Transaction>], end: &[(Key, &[i64])]) {
        for level in [Level::Snapshot, Level::Serializable] {
            assert_eq!(checked(transactions, end, level), Ok(true));
        }
    }

    /// Only serializable transactions cannot have done it.
    #[track_caller]
    fn skewed(transactions: &[Record<Transaction>], end: &[(Key, &[i64])]) {
        assert_eq!(checked(transactions, end, Level::Snapshot), Ok(false));
        let found = checked(transactions, end, Level::Serializable).expect_err("a skew");
        assert!(found.starts_with("G2: "), "{found}");
    }

    #[test]
    fn g0_writes_in_two_orders() {
        let both = [done(&[w(1, 10), w(2, 11)]), done(&[w(1, 20), w(2, 21)])];
        refused(&both, &[(1, &[10, 20]), (2, &[21, 11])], "G0: ");
        accepted(&both, &[(1, &[10, 20]), (2, &[11, 21])]);
        let within = [done(&[w(1, 10), w(1, 11)]), done(&[w(1, 20)])];
        refused(&within, &[(1, &[10, 20, 11])], "G0: ");
        accepted(&within, &[(1, &[20, 10, 11])]);
    }

    #[test]
    fn g1a_what_was_aborted_is_read() {
        let read = |list: &[i64]| [aborted(&[w(1, 10)]), done(&[r(1, list)])];
        refused(&read(&[10]), &[(1, &[])], "G1a: ");
        refused(&read(&[]), &[(1, &[10])], "G1a: ");
        accepted(&read(&[]), &[(1, &[])]);
    }

    #[test]
    fn g1b_half_of_a_transaction_is_read() {
        let read = |list: &[i64]| [done(&[w(1, 10), w(1, 11)]), done(&[r(1, list)])];
        refused(&read(&[10]), &[(1, &[10, 11])], "G1b: ");
        accepted(&read(&[10, 11]), &[(1, &[10, 11])]);
        accepted(&read(&[]), &[(1, &[10, 11])]);
    }

    #[test]
    fn g1c_two_read_each_other() {
        let read = |one: &[i64], two: &[i64]| [done(&[w(1, 10), r(2, two)]), done(&[w(2, 20), r(1, one)])];
        refused(&read(&[10], &[20]), &[(1, &[10]), (2, &[20])], "G1c: ");
        accepted(&read(&[10], &[]), &[(1, &[10]), (2, &[20])]);
    }

    #[test]
    fn otv_an_observed_transaction_vanishes() {
        let read = |one: &[i64], two: &[i64]| {
            let writers = [done(&[w(1, 10), w(2, 11)]), done(&[w(1, 20), w(2, 21)])];
            writers.into_iter().chain([done(&[r(1, one), r(2, two)])]).collect::<Vec<_>>()
        };
        let end: &[(Key, &[i64])] = &[(1, &[10, 20]), (2, &[11, 21])];
        refused(&read(&[10, 20], &[11]), end, "G-single: ");
        accepted(&read(&[10, 20], &[11, 21]), end);
        accepted(&read(&[10], &[11]), end);
    }

    #[test]
    fn pmp_a_range_grows() {
        // The list is not there when the range is read first.
        let read = |again: &[i64]| [done(&[r(1, &[]), r(2, &[]), r(1, again), r(2, &[])]), done(&[w(1, 10)])];
        refused(&read(&[10]), &[(1, &[10])], "G-single: ");
        accepted(&read(&[]), &[(1, &[10])]);
    }

    #[test]
    fn p4_an_update_is_lost() {
        let both = |seen: &[i64]| [done(&[r(1, &[]), w(1, 10)]), done(&[r(1, seen), w(1, 20)])];
        refused(&both(&[]), &[(1, &[10, 20])], "G-single: ");
        refused(&both(&[]), &[(1, &[20])], "was lost");
        accepted(&both(&[10]), &[(1, &[10, 20])]);
        // The first one was aborted for it.
        let [first, second] = both(&[]);
        accepted(&[aborted(&first.event.steps), second], &[(1, &[20])]);
    }

    #[test]
    fn g_single_a_read_is_of_two_moments() {
        let read = |two: &[i64]| [done(&[r(1, &[]), r(2, two)]), done(&[w(1, 10), w(2, 11)])];
        refused(&read(&[11]), &[(1, &[10]), (2, &[11])], "G-single: ");
        accepted(&read(&[]), &[(1, &[10]), (2, &[11])]);
        // An aborted one reads one moment too.
        let [reader, writer] = read(&[11]);
        refused(&[aborted(&reader.event.steps), writer], &[(1, &[10]), (2, &[11])], "G-single: ");
    }

    #[test]
    fn g2_item_two_read_what_the_other_writes() {
        let both = |two: &[i64]| {
            [done(&[r(1, &[1]), r(2, &[2]), w(1, 10)]), done(&[r(1, two), r(2, &[2]), w(2, 20)])]
        };
        let with = |two: &[i64]| [done(&[w(1, 1), w(2, 2)])].into_iter().chain(both(two)).collect::<Vec<_>>();
        skewed(&with(&[1]), &[(1, &[1, 10]), (2, &[2, 20])]);
        accepted(&with(&[1, 10]), &[(1, &[1, 10]), (2, &[2, 20])]);
    }

    #[test]
    fn g2_two_read_a_range_and_write_into_it() {
        let both =
            |one: &[i64]| [done(&[r(1, &[]), r(2, &[]), w(1, 10)]), done(&[r(1, one), r(2, &[]), w(2, 20)])];
        skewed(&both(&[]), &[(1, &[10]), (2, &[20])]);
        accepted(&both(&[10]), &[(1, &[10]), (2, &[20])]);
        // A reader sees the two in an order that the one of them contradicts.
        let one = [done(&[r(1, &[]), w(2, 20)]), done(&[w(1, 10)]), done(&[r(1, &[10]), r(2, &[])])];
        skewed(&one, &[(1, &[10]), (2, &[20])]);
        let one = [done(&[r(1, &[]), w(2, 20)]), done(&[w(1, 10)]), done(&[r(1, &[10]), r(2, &[20])])];
        accepted(&one, &[(1, &[10]), (2, &[20])]);
    }

    #[test]
    fn the_time_is_kept() {
        let write = || at(0, 1, Transaction { steps: vec![w(1, 10)], is_committed: true });
        let read = |list: &[i64], begun, ended| {
            at(begun, ended, Transaction { steps: vec![r(1, list)], is_committed: true })
        };
        refused(&[write(), read(&[], 2, 3)], &[(1, &[10])], "against the time: ");
        accepted(&[write(), read(&[10], 2, 3)], &[(1, &[10])]);
        let late = at(4, 5, Transaction { steps: vec![w(1, 10)], is_committed: true });
        refused(&[late.clone(), read(&[10], 2, 3)], &[(1, &[10])], "against the time: ");
        accepted(&[late, read(&[], 2, 3)], &[(1, &[10])]);
    }

    #[test]
    fn own_appends_are_seen_and_others_are_known() {
        accepted(&[done(&[w(1, 10), r(1, &[10])])], &[(1, &[10])]);
        refused(&[done(&[w(1, 10), r(1, &[])])], &[(1, &[10])], "its own appends");
        refused(&[done(&[r(1, &[10]), w(1, 10)])], &[(1, &[10])], "G1b: ");
        refused(&[done(&[w(1, 10)])], &[(1, &[10, 11])], "which no call appended");
        refused(&[done(&[w(1, 10)])], &[(1, &[10, 10])], "twice");
        refused(&[done(&[w(1, 10)])], &[(2, &[10])], "was appended to 1");
        let two = [done(&[w(1, 10)]), done(&[w(1, 20)]), done(&[r(1, &[20])])];
        refused(&two, &[(1, &[10, 20])], "was never");
    }
}
