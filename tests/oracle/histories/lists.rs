//! The checker of lists that all threads append to, and of snapshots that see several lists at once.
//!
//! Values are unique, so the list at the end says which append made which version of it, and every list that was read is
//! a version or it is wrong. A snapshot of several lists must be a cut: it has no append without those that had returned
//! before it began, whichever list they went to.

use std::collections::{BTreeMap, BTreeSet};

use crate::histories::history::{Record, Span};
use crate::histories::order::{Versioned, check_order};

/// The `_id` of a list's document.
pub(crate) type Key = i32;

/// The knowledge of an append about the list.
#[derive(Clone, Debug)]
pub(crate) enum Image {
    None,
    Before(Vec<i64>),
    After(Vec<i64>),
}

/// An operation on one list.
#[derive(Clone, Debug)]
pub(crate) enum ListCall {
    Append { key: Key, value: i64, image: Image },
    Read { key: Key, list: Vec<i64> },
}

/// The lists in one snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// The way in which it was read.
    pub(crate) verb: &'static str,
    pub(crate) found: BTreeMap<Key, Vec<i64>>,
    /// Lists shorter than this were not asked for.
    pub(crate) length_min: u64,
}

/// All that is known of the lists of a run.
#[derive(Default)]
pub(crate) struct Lists {
    pub(crate) calls: Vec<Record<ListCall>>,
    pub(crate) cuts: Vec<Record<Cut>>,
    /// The lists at the end, when all threads had ended.
    pub(crate) end: BTreeMap<Key, Vec<i64>>,
}

/// The appends of one list, in the order of its versions.
struct Course<'a> {
    key: Key,
    end: &'a [i64],
    spans: Vec<Span>,
    /// For each version the latest beginning of the appends up to it; the first is that of the empty list.
    begun: Vec<u64>,
    /// For each version the earliest end of the appends after it.
    ended: Vec<u64>,
}

/// Rejects a history that no store with these promises can have.
pub(crate) fn check_lists(lists: &Lists) -> Result<(), String> {
    let mut courses = BTreeMap::new();
    for (key, end) in &lists.end {
        courses.insert(*key, Course::of(*key, end, &lists.calls)?);
    }
    let mut versions: BTreeMap<Key, Vec<Record<Versioned>>> = BTreeMap::new();
    for call in &lists.calls {
        let key = match &call.event {
            ListCall::Append { key, .. } | ListCall::Read { key, .. } => *key,
        };
        let course = courses.get(&key).ok_or_else(|| format!("list {key} is not there at the end"))?;
        versions.entry(key).or_default().push(call.with(course.version(call)?));
    }
    for cut in &lists.cuts {
        check_cut(cut, &courses, &mut versions)?;
    }
    for (key, calls) in &versions {
        check_order(&format!("list {key}"), calls)?;
    }
    check_cuts_compare(&lists.cuts)
}

impl<'a> Course<'a> {
    fn of(key: Key, end: &'a [i64], calls: &[Record<ListCall>]) -> Result<Self, String> {
        let mut appended = BTreeMap::new();
        for call in calls {
            match &call.event {
                ListCall::Append { key: to, value, .. } if *to == key => {
                    appended.insert(*value, call.span);
                }
                ListCall::Append { .. } | ListCall::Read { .. } => {}
            }
        }
        let stored: BTreeSet<i64> = end.iter().copied().collect();
        if stored.len() != end.len() {
            return Err(format!("list {key} has a value twice: {end:?}"));
        }
        if let Some((value, span)) = appended.iter().find(|(value, _)| !stored.contains(value)) {
            return Err(format!("list {key} lost {value}, appended at {span:?}: {end:?}"));
        }
        let span = |value: &i64| {
            let span = appended.get(value).copied();
            span.ok_or_else(|| format!("list {key} has {value}, which no acknowledged call appended"))
        };
        let spans: Vec<Span> = end.iter().map(span).collect::<Result<_, _>>()?;
        let mut begun = vec![0];
        for span in &spans {
            begun.push(span.begun.max(begun.last().copied().unwrap_or(0)));
        }
        let mut ended = vec![u64::MAX];
        for span in spans.iter().rev() {
            ended.push(span.ended.min(ended.last().copied().unwrap_or(u64::MAX)));
        }
        ended.reverse();
        Ok(Self { key, end, spans, begun, ended })
    }

    /// The version of a list that was read.
    fn version_of(&self, list: &[i64]) -> Result<u64, String> {
        if self.end.starts_with(list) {
            return Ok(list.len() as u64);
        }
        Err(format!("list {} was never {list:?}: it became {:?}", self.key, self.end))
    }

    fn version(&self, call: &Record<ListCall>) -> Result<Versioned, String> {
        let (value, image) = match &call.event {
            ListCall::Read { list, .. } => return Ok(Versioned::seen(self.version_of(list)?)),
            ListCall::Append { value, image, .. } => (value, image),
        };
        let position = self.end.iter().position(|stored| stored == value).expect("looked for before");
        let made = position as u64 + 1;
        let shown = match image {
            Image::None => None,
            Image::Before(list) => Some(self.version_of(list)? + 1),
            Image::After(list) => Some(self.version_of(list)?),
        };
        if shown.is_some_and(|shown| shown != made) {
            return Err(format!("list {}: {call:?} made version {made} and shows another", self.key));
        }
        Ok(Versioned::Made(made))
    }
}

/// Checks one snapshot, and adds what it saw of each list to the reads of that list.
fn check_cut(
    cut: &Record<Cut>,
    courses: &BTreeMap<Key, Course<'_>>,
    versions: &mut BTreeMap<Key, Vec<Record<Versioned>>>,
) -> Result<(), String> {
    let Cut { verb, found, length_min } = &cut.event;
    if let Some(key) = found.keys().find(|key| !courses.contains_key(key)) {
        return Err(format!("{verb} found list {key}, which is not there at the end"));
    }
    let mut has = (0, None);
    let mut lacks = (u64::MAX, None);
    for (key, course) in courses {
        let (low, high) = match found.get(key) {
            Some(list) => {
                let version = course.version_of(list).map_err(|error| format!("{verb}: {error}"))?;
                (version, version)
            }
            None if *length_min == 0 => {
                return Err(format!("{verb} at {:?} did not find list {key}", cut.span));
            }
            None => (0, length_min - 1),
        };
        let at = |moments: &[u64], version: u64| {
            let place = usize::try_from(version).expect("a length").min(course.spans.len());
            moments.get(place).copied().expect("one more than appends")
        };
        has = has.max((at(&course.begun, low), Some(*key)));
        lacks = lacks.min((at(&course.ended, high), Some(*key)));
        versions.entry(*key).or_default().push(cut.with(Versioned::Seen { low, high }));
    }
    if lacks.0 < has.0 {
        return Err(format!(
            "{verb} at {:?} is no cut: it lacks an append to list {:?} that had returned at {}, and has one to list {:?} \
             that began at {}: {found:?}",
            cut.span, lacks.1, lacks.0, has.1, has.0
        ));
    }
    Ok(())
}

/// Of two snapshots one is older, in all lists.
fn check_cuts_compare(cuts: &[Record<Cut>]) -> Result<(), String> {
    let mut whole: Vec<&Record<Cut>> = cuts.iter().filter(|cut| cut.event.length_min == 0).collect();
    whole.sort_by_key(|cut| cut.event.found.values().map(Vec::len).sum::<usize>());
    for pair in whole.windows(2) {
        let [older, newer] = pair else { continue };
        let newer_len = |key| newer.event.found.get(key).map_or(0, Vec::len);
        if older.event.found.iter().any(|(key, list)| list.len() > newer_len(key)) {
            return Err(format!("two snapshots, and none of them is older: {older:?} and {newer:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histories::history::at;

    fn append(begun: u64, ended: u64, key: Key, value: i64) -> Record<ListCall> {
        at(begun, ended, ListCall::Append { key, value, image: Image::None })
    }

    fn read(begun: u64, ended: u64, list: &[i64]) -> Record<ListCall> {
        at(begun, ended, ListCall::Read { key: 1, list: list.to_vec() })
    }

    fn cut(begun: u64, ended: u64, one: &[i64], two: &[i64]) -> Record<Cut> {
        let found = BTreeMap::from([(1, one.to_vec()), (2, two.to_vec())]);
        at(begun, ended, Cut { verb: "find", found, length_min: 0 })
    }

    #[track_caller]
    fn check(calls: Vec<Record<ListCall>>, cuts: Vec<Record<Cut>>, end: &[(Key, &[i64])], words: &str) {
        let end = end.iter().map(|(key, list)| (*key, list.to_vec())).collect();
        let checked = check_lists(&Lists { calls, cuts, end });
        match checked {
            Ok(()) => assert_eq!(words, "", "nothing was found"),
            Err(found) => assert!(!words.is_empty() && found.contains(words), "{found}"),
        }
    }

    #[test]
    fn values_are_neither_lost_nor_doubled_nor_made_up() {
        let two = || vec![append(0, 1, 1, 7), append(2, 3, 1, 8)];
        check(two(), vec![], &[(1, &[7, 8])], "");
        check(two(), vec![], &[(1, &[8])], "lost 7");
        check(two(), vec![], &[(1, &[7, 8, 7])], "twice");
        check(two(), vec![], &[(1, &[7, 8, 9])], "no acknowledged call");
        check(two(), vec![], &[], "not there at the end");
    }

    #[test]
    fn appends_keep_the_order_of_their_calls() {
        check(vec![append(0, 1, 1, 7), append(2, 3, 1, 8)], vec![], &[(1, &[8, 7])], "had been there");
        check(vec![append(0, 3, 1, 7), append(1, 2, 1, 8)], vec![], &[(1, &[8, 7])], "");
    }

    #[test]
    fn every_list_that_is_read_was_there() {
        let two = |read| vec![append(0, 9, 1, 7), append(1, 8, 1, 8), read];
        check(two(read(2, 3, &[7])), vec![], &[(1, &[7, 8])], "");
        check(two(read(2, 3, &[8])), vec![], &[(1, &[7, 8])], "was never [8]");
        check(two(read(10, 11, &[7])), vec![], &[(1, &[7, 8])], "had been there");
    }

    #[test]
    fn images_are_those_of_the_append() {
        let with = |image| vec![append(0, 9, 1, 7), at(1, 8, ListCall::Append { key: 1, value: 8, image })];
        check(with(Image::After(vec![7, 8])), vec![], &[(1, &[7, 8])], "");
        check(with(Image::Before(vec![7])), vec![], &[(1, &[7, 8])], "");
        check(with(Image::Before(vec![])), vec![], &[(1, &[7, 8])], "shows another");
        check(with(Image::After(vec![7])), vec![], &[(1, &[7, 8])], "shows another");
    }

    #[test]
    fn a_snapshot_is_a_cut() {
        // One thread appends to the first list and then to the second; another call is under way all the time.
        let calls = || vec![append(0, 1, 1, 7), append(2, 3, 2, 8)];
        let end: &[(Key, &[i64])] = &[(1, &[7]), (2, &[8])];
        check(calls(), vec![cut(0, 9, &[7], &[])], end, "");
        check(calls(), vec![cut(0, 9, &[], &[8])], end, "is no cut");
        check(calls(), vec![cut(4, 9, &[7], &[])], end, "had been there");
    }

    #[test]
    fn of_two_snapshots_one_is_older() {
        let calls = vec![append(0, 9, 1, 7), append(1, 8, 2, 8)];
        let cuts = vec![cut(2, 5, &[7], &[]), cut(3, 4, &[], &[8])];
        check(calls, cuts, &[(1, &[7]), (2, &[8])], "none of them is older");
    }

    #[test]
    fn a_list_that_is_long_enough_is_found() {
        let long = |found: &[(Key, &[i64])]| {
            let found = found.iter().map(|(key, list)| (*key, list.to_vec())).collect();
            vec![at(4, 5, Cut { verb: "find", found, length_min: 1 })]
        };
        let calls = || vec![append(0, 1, 1, 7), append(2, 9, 2, 8)];
        let end: &[(Key, &[i64])] = &[(1, &[7]), (2, &[8])];
        check(calls(), long(&[(1, &[7])]), end, "");
        check(calls(), long(&[(2, &[8])]), end, "is no cut");
        check(calls(), long(&[]), end, "had been there");
    }
}
