//! Percentiles of numbers: where one lies among sorted numbers, and an approximation that holds few of them.
//!
//! The operators that ask for percentiles, and their inputs, are described elsewhere. A share is from 0 to 1. Numbers are doubles, and
//! none of them is NaN: a NaN has no place among sorted numbers, and counts for nothing. The approximation is a t-digest:
//! it knows the extremes well, and the middle by means of ever more numbers.

use std::cmp::Ordering;
use std::sync::Arc;

use bson::spec::BinarySubtype;
use bson::{Binary, RawArrayBuf, RawBson, RawBsonRef};
use tdigest::{Centroid, TDigest};

/// The method of computing a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// As `Discrete`, and of many numbers with an error.
    Approximate,
    /// One of the numbers.
    Discrete,
    /// On the line between the two numbers that are next to it.
    Continuous,
}

impl Method {
    /// The method of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "approximate" => Some(Self::Approximate),
            "discrete" => Some(Self::Discrete),
            "continuous" => Some(Self::Continuous),
            _ => None,
        }
    }

    /// The percentile of `count` sorted numbers, of which `number` gives each by its position. Returns `None` of no
    /// numbers.
    pub(crate) fn at(self, share: f64, count: usize, number: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        let last = count.checked_sub(1)?;
        // The caller knows how the numbers lie in memory, so they are asked for one by one.
        match self {
            Self::Approximate | Self::Discrete => number(rank(share, count)),
            Self::Continuous => {
                // The first number is at the share 0, and the last one at 1.
                let rank = share * as_double(last);
                let (below, above) = (rank.floor(), rank.ceil());
                let (left, right) = (number(position(below, last))?, number(position(above, last))?);
                // Nothing lies on the way to an infinity but the infinity: a share of it would be NaN.
                if below >= above || left == f64::NEG_INFINITY {
                    return Some(left);
                }
                if right == f64::INFINITY {
                    return Some(right);
                }
                Some((above - rank) * left + (rank - below) * right)
            }
        }
    }
}

/// The position of the discrete percentile among `count` sorted numbers: the lower one of two that would do.
fn rank(share: f64, count: usize) -> usize {
    let last = count.saturating_sub(1);
    if share >= 1.0 {
        return last;
    }
    position((share * as_double(count)).ceil() - 1.0, last)
}

/// A double as a position, at most `last`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is cut to the range")]
fn position(rank: f64, last: usize) -> usize {
    (rank.max(0.0) as usize).min(last)
}

#[expect(clippy::cast_precision_loss, reason = "so many numbers do not fit into memory")]
fn as_double(count: usize) -> f64 {
    count as f64
}

/// The shares that percentiles are wanted of, and how they are computed.
#[derive(Clone, Debug)]
pub(crate) struct PercentileRequest {
    /// From 0 to 1.
    shares: Arc<[f64]>,
    method: Method,
    /// Whether the only percentile is the value, and not an array of it.
    is_median: bool,
}

impl PercentileRequest {
    pub(crate) fn new(shares: Arc<[f64]>, method: Method, is_median: bool) -> Self {
        Self { shares, method, is_median }
    }

    pub(crate) fn method(&self) -> Method {
        self.method
    }

    pub(crate) fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// The result, of the percentiles in the order of the shares; `None` if there were no numbers.
    pub(crate) fn result(&self, percentiles: Option<Vec<f64>>) -> RawBson {
        // A median is asked by itself, so it is not an array of one.
        let only = |percentiles: &Vec<f64>| percentiles.first().copied();
        if self.is_median {
            return percentiles.as_ref().and_then(only).map_or(RawBson::Null, RawBson::Double);
        }
        let mut array = RawArrayBuf::new();
        match percentiles {
            Some(percentiles) => percentiles.into_iter().for_each(|number| array.push(number)),
            None => self.shares.iter().for_each(|_| array.push(RawBsonRef::Null)),
        }
        RawBson::Array(array)
    }
}

/// Numbers that are kept sorted, and of which each can be removed again. Adding, removing and finding one needs few steps,
/// however many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortedNumbers {
    /// Sorted, none empty, and none longer than `CHUNK_MAX`.
    chunks: Vec<Vec<f64>>,
    count: usize,
}

/// The limit of numbers that are stored together: they move when one is added.
const CHUNK_MAX: usize = 512;

impl SortedNumbers {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn add(&mut self, number: f64) {
        self.count += 1;
        // Equal numbers may reach over several chunks: any place among them will do.
        let at = self.chunk_of(number);
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(vec![number]);
            return;
        };
        let place = chunk.partition_point(|other| other.total_cmp(&number).is_lt());
        chunk.insert(place, number);
        // Halves, so that a chunk that grew can grow again before it is split.
        if chunk.len() > CHUNK_MAX {
            let upper = chunk.split_off(CHUNK_MAX / 2);
            self.chunks.insert(at + 1, upper);
        }
    }

    /// Removes a number that was added.
    pub(crate) fn remove(&mut self, number: f64) {
        let at = self.chunk_of(number);
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let place = chunk.partition_point(|other| other.total_cmp(&number).is_lt());
        if chunk.get(place).is_some_and(|other| other.total_cmp(&number).is_eq()) {
            chunk.remove(place);
            self.count -= 1;
        }
        // Chunks without numbers would only make the way longer.
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
    }

    /// The number at a position.
    pub(crate) fn get(&self, position: usize) -> Option<f64> {
        // Whole chunks are passed over, so that a million numbers are 4,000 steps at most.
        let mut rest = position;
        for chunk in &self.chunks {
            if let Some(number) = chunk.get(rest) {
                return Some(*number);
            }
            rest -= chunk.len();
        }
        None
    }

    /// The number of steps that finding a number needs.
    pub(crate) fn steps(&self) -> u64 {
        1 + self.chunks.len() as u64 / 64
    }

    /// The first chunk whose last number is not below `number`, or else the last one.
    fn chunk_of(&self, number: f64) -> usize {
        let is_below =
            |chunk: &Vec<f64>| chunk.last().is_some_and(|last| last.total_cmp(&number) == Ordering::Less);
        self.chunks.partition_point(is_below).min(self.chunks.len().saturating_sub(1))
    }
}

/// The numbers of a group, of which percentiles are asked once.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    method: Method,
    /// Those that are in no digest.
    loose: Vec<f64>,
    /// Means of those that came first.
    digest: Option<Box<TDigest>>,
    /// The number of infinite values, below and above all others: a digest holds finite numbers only.
    infinite: [usize; 2],
}

/// The limit of means in a digest.
const DIGEST_MAX: usize = 2_000;
/// The number of values that are held until they are put into a digest.
const LOOSE_MAX: usize = 5 * DIGEST_MAX;

impl Numbers {
    pub(crate) fn new(method: Method) -> Self {
        Self { method, loose: Vec::new(), digest: None, infinite: [0, 0] }
    }

    /// Adds a number. NaN counts for nothing.
    pub(crate) fn add(&mut self, number: f64) {
        let [below, above] = &mut self.infinite;
        // An infinite number has no mean with others, but it has a place.
        if number == f64::NEG_INFINITY {
            *below += 1;
        } else if number == f64::INFINITY {
            *above += 1;
        } else if !number.is_nan() {
            self.loose.push(number);
        }
        if self.method == Method::Approximate && self.loose.len() >= LOOSE_MAX {
            self.digest();
        }
    }

    /// The bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        // The capacity, because that is the memory the list uses.
        let means = self.digest.as_ref().map_or(0, |digest| digest.centroids().len());
        self.loose.capacity() * size_of::<f64>() + means * size_of::<Centroid>()
    }

    /// The percentiles for some shares. Returns `None` of no numbers.
    pub(crate) fn percentiles(mut self, shares: &[f64]) -> Option<Vec<f64>> {
        // Few numbers are all there, and need no approximation.
        if self.digest.is_some() {
            self.digest();
        }
        self.loose.sort_unstable_by(f64::total_cmp);
        // Once for all shares, of which there may be many.
        let means = self.digest.as_deref().map(Means::of);
        shares.iter().map(|share| self.percentile(*share, means.as_ref())).collect()
    }

    fn percentile(&self, share: f64, means: Option<&Means>) -> Option<f64> {
        let [below, above] = self.infinite;
        let Some(means) = means else {
            let finite = self.loose.len();
            return self.method.at(share, below + finite + above, |position| {
                Some(match position.checked_sub(below) {
                    None => f64::NEG_INFINITY,
                    Some(rest) => self.loose.get(rest).copied().unwrap_or(f64::INFINITY),
                })
            });
        };
        // With a digest the infinities still have their exact places before and after it.
        let finite = position(means.count, usize::MAX);
        let rank = rank(share, below + finite + above);
        Some(match rank.checked_sub(below) {
            None => f64::NEG_INFINITY,
            Some(rest) if rest >= finite => f64::INFINITY,
            Some(rest) => means.at_rank(rest)?,
        })
    }

    /// Adds the values that the numbers are made of.
    pub(crate) fn save(&self, saved: &mut RawArrayBuf) {
        for count in self.infinite {
            saved.push(RawBson::Int64(i64::try_from(count).unwrap_or(i64::MAX)));
        }
        saved.push(bytes_of(self.loose.iter().copied()));
        let Some(digest) = &self.digest else { return };
        // A digest is never empty, so that it has extremes.
        let extremes = [digest.min().unwrap_or_default(), digest.max().unwrap_or_default()];
        saved.push(bytes_of([digest.sum(), digest.count()].into_iter().chain(extremes)));
        saved.push(bytes_of(digest.centroids().iter().flat_map(|mean| [mean.mean(), mean.weight()])));
    }

    /// Reads the numbers that were saved in place of none. Returns `None` if the values are none of numbers.
    pub(crate) fn restore(&mut self, saved: &mut dyn Iterator<Item = RawBsonRef<'_>>) -> Option<()> {
        // No more than documents can add up to, so that more can be added.
        let mut count = || saved.next()?.as_i64().filter(|count| (0..1 << 60).contains(count));
        let (below, above) = (usize::try_from(count()?).ok()?, usize::try_from(count()?).ok()?);
        let loose = doubles_of(saved.next()?)?;
        let digest = match saved.next() {
            None => None,
            Some(parts) => {
                let [sum, count, min, max] = *doubles_of(parts)?.as_slice() else { return None };
                let pairs = doubles_of(saved.next()?)?;
                let mean = |pair: &[f64]| match *pair {
                    [mean, weight] if weight > 0.0 => Some(Centroid::new(mean, weight)),
                    _ => None,
                };
                let means = pairs.chunks(2).map(mean).collect::<Option<Vec<_>>>()?;
                (!means.is_empty() && means.len() <= DIGEST_MAX).then_some(())?;
                Some(Box::new(TDigest::new(means, sum, count, Some(max), Some(min), DIGEST_MAX)))
            }
        };
        (self.infinite, self.loose, self.digest) = ([below, above], loose, digest);
        Some(())
    }

    /// Puts the loose numbers into the digest.
    fn digest(&mut self) {
        // The list is given back whole: the next numbers make a list of their own.
        let mut numbers = std::mem::take(&mut self.loose);
        numbers.sort_unstable_by(f64::total_cmp);
        let digest = self.digest.take().map_or_else(|| TDigest::new_with_size(DIGEST_MAX), |digest| *digest);
        self.digest = Some(Box::new(digest.merge_sorted(numbers)));
    }
}

/// Finite doubles as bytes.
fn bytes_of(numbers: impl Iterator<Item = f64>) -> RawBson {
    let bytes = numbers.flat_map(f64::to_le_bytes).collect();
    RawBson::Binary(Binary { subtype: BinarySubtype::Generic, bytes })
}

/// Finite doubles that were bytes. Returns `None` if they are none.
fn doubles_of(value: RawBsonRef<'_>) -> Option<Vec<f64>> {
    let bytes = value.as_binary()?.bytes;
    let double =
        |bytes: &[u8]| Some(f64::from_le_bytes(bytes.try_into().ok()?)).filter(|double| double.is_finite());
    bytes.chunks(size_of::<f64>()).map(double).collect()
}

/// The means of a digest, each with its place among all numbers.
struct Means {
    /// In their order. The first and the last are the extremes, which a digest knows exactly.
    points: Vec<(f64, f64)>,
    count: f64,
}

impl Means {
    fn of(digest: &TDigest) -> Self {
        let count = digest.count();
        let mut points: Vec<(f64, f64)> = digest.min().map(|least| (0.0, least)).into_iter().collect();
        let mut start = 0.0;
        // A mean is in the middle of the positions of its numbers; that of one number stands where the number does.
        for centroid in digest.centroids() {
            points.push((start + (centroid.weight() - 1.0) / 2.0, centroid.mean()));
            start += centroid.weight();
        }
        points.extend(digest.max().map(|greatest| (count - 1.0, greatest)));
        Self { points, count }
    }

    /// The number at a position, as far as the means show it: between two of them lies a line.
    fn at_rank(&self, rank: usize) -> Option<f64> {
        let rank = as_double(rank);
        // Of points at one place the extremes hold: the first of all, and the last.
        let next = self.points.partition_point(|(place, _)| *place < rank);
        let right = *self.points.get(next).or(self.points.last())?;
        if rank >= self.count - 1.0 {
            return self.points.last().map(|(_, greatest)| *greatest);
        }
        let left = next.checked_sub(1).and_then(|before| self.points.get(before)).copied();
        Some(between(left.unwrap_or(right), right, rank))
    }
}

/// The value at `rank` on the line between two points.
fn between(left: (f64, f64), right: (f64, f64), rank: f64) -> f64 {
    let (left_rank, left_value) = left;
    let (right_rank, right_value) = right;
    let way = right_rank - left_rank;
    // Two means of the same place: the later one holds.
    if way <= 0.0 {
        return right_value;
    }
    let share = ((rank - left_rank) / way).clamp(0.0, 1.0);
    // Each end by its share: their difference could be infinite.
    left_value * (1.0 - share) + right_value * share
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The percentile of sorted numbers.
    fn at(method: Method, numbers: &[f64], share: f64) -> Option<f64> {
        method.at(share, numbers.len(), |position| numbers.get(position).copied())
    }

    /// The numbers of a group, in an order that is not theirs.
    fn group(method: Method, count: u32) -> Numbers {
        let mut numbers = Numbers::new(method);
        // 7919 has no divisor but itself, so all remainders come, each once.
        (0..count).for_each(|number| numbers.add(f64::from(number * 7_919 % count)));
        numbers
    }

    #[test]
    fn a_discrete_percentile_is_the_lower_of_two_numbers() {
        let numbers = [1.0, 2.0, 3.0, 4.0];
        let found =
            [0.0, 0.25, 0.26, 0.5, 0.75, 0.76, 1.0].map(|share| at(Method::Discrete, &numbers, share));
        assert_eq!(found, [1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0].map(Some));
        assert_eq!(at(Method::Discrete, &[], 0.5), None);
    }

    #[test]
    fn a_continuous_percentile_lies_between_two_numbers() {
        let numbers = [1.0, 2.0, 4.0, 8.0];
        let found = [0.0, 0.5, 0.75, 1.0].map(|share| at(Method::Continuous, &numbers, share));
        assert_eq!(found, [1.0, 3.0, 5.0, 8.0].map(Some));
        assert_eq!(at(Method::Continuous, &[5.0], 0.3), Some(5.0));
        assert_eq!(at(Method::Continuous, &[], 0.3), None);
    }

    #[test]
    fn the_way_to_an_infinity_is_infinite() {
        let (least, greatest) = (f64::NEG_INFINITY, f64::INFINITY);
        let numbers = [least, 1.0, 2.0, greatest];
        let found = [0.1, 1.0 / 3.0, 0.5, 0.9].map(|share| at(Method::Continuous, &numbers, share));
        assert_eq!(found, [least, 1.0, 1.5, greatest].map(Some));
        assert_eq!(at(Method::Continuous, &[least, greatest], 0.5), Some(least));
    }

    #[test]
    fn sorted_numbers_are_added_and_removed_in_any_order() {
        let mut numbers = SortedNumbers::default();
        (0..5_000_u32).for_each(|number| numbers.add(f64::from(number * 7_919 % 5_000)));
        assert!((0..5_000_u32).all(|number| numbers.get(number as usize) == Some(f64::from(number))));
        (0..5_000_u32).filter(|number| number % 2 == 0).for_each(|number| numbers.remove(f64::from(number)));
        assert_eq!(numbers.len(), 2_500);
        assert!((0..2_500_u32).all(|number| numbers.get(number as usize) == Some(f64::from(2 * number + 1))));
        (0..2_500_u32).for_each(|number| numbers.remove(f64::from(2 * number + 1)));
        assert_eq!((numbers.len(), numbers.get(0), numbers.chunks.len()), (0, None, 0));
    }

    #[test]
    fn equal_numbers_are_removed_one_by_one() {
        let mut numbers = SortedNumbers::default();
        (0..2_000).for_each(|_| numbers.add(1.0));
        numbers.remove(2.0);
        (0..1_999).for_each(|_| numbers.remove(1.0));
        assert_eq!((numbers.len(), numbers.get(0)), (1, Some(1.0)));
    }

    #[test]
    fn few_numbers_have_no_error() {
        let shares = [0.0, 0.123, 0.5, 0.999, 1.0];
        let exact = group(Method::Discrete, 9_973).percentiles(&shares);
        assert_eq!(group(Method::Approximate, 9_973).percentiles(&shares), exact);
        assert_eq!(exact, Some(vec![0.0, 1_226.0, 4_986.0, 9_963.0, 9_972.0]));
    }

    #[test]
    fn many_numbers_take_little_memory_and_have_a_small_error() {
        let count = 300_007;
        let numbers = group(Method::Approximate, count);
        assert!(numbers.bytes() < 200_000, "{}", numbers.bytes());
        let shares = [0.0, 0.001, 0.25, 0.5, 0.9, 0.999, 1.0];
        let found = numbers.percentiles(&shares).unwrap();
        for (share, found) in shares.into_iter().zip(found) {
            let exact = (share * f64::from(count)).ceil() - 1.0;
            let error = (found - exact.max(0.0)).abs() / f64::from(count);
            // The ends are exact; a mean in the middle has a thousandth of all numbers.
            let allowed = if (0.01..0.99).contains(&share) { 0.001 } else { 0.000_1 };
            assert!(error <= allowed, "{share}: {found} instead of {exact}");
        }
    }

    #[test]
    fn infinities_are_beyond_all_means_and_nan_is_nowhere() {
        for method in [Method::Approximate, Method::Discrete, Method::Continuous] {
            let mut numbers = group(method, 20_011);
            numbers.add(f64::NAN);
            (0..10_000).for_each(|_| numbers.add(f64::INFINITY));
            (0..10_000).for_each(|_| numbers.add(f64::NEG_INFINITY));
            let found = numbers.percentiles(&[0.0, 0.2, 0.5, 0.8, 1.0]).unwrap();
            let (least, greatest) = (f64::NEG_INFINITY, f64::INFINITY);
            assert_eq!((found[0], found[1], found[3], found[4]), (least, least, greatest, greatest));
            assert!((found[2] - 10_005.0).abs() < 20.0, "{method:?}: {found:?}");
        }
        let mut numbers = Numbers::new(Method::Approximate);
        numbers.add(f64::NAN);
        assert_eq!(numbers.percentiles(&[0.5]), None);
    }

    #[test]
    fn the_greatest_numbers_do_not_overflow() {
        let mut numbers = Numbers::new(Method::Approximate);
        (0..30_000).for_each(|at| numbers.add(if at % 2 == 0 { f64::MAX } else { f64::MIN }));
        let found = numbers.percentiles(&[0.0, 0.1, 0.9, 1.0]).unwrap();
        // Means are rounded; what matters is that none of them is infinite.
        let shares = found.into_iter().map(|number| number / f64::MAX);
        assert!(
            shares.zip([-1.0, -1.0, 1.0, 1.0]).all(|(found, exact): (f64, f64)| (found - exact).abs() < 1e-9)
        );
    }
}
