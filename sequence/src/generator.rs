//! Generating `ObjectId`s: unique, ascending, without a lock.
//!
//! One 64-bit atomic holds seconds (40 bits) and counter (24 bits) of the newest id; a new id is
//! `max(newest + 1, now)`. So the ids of one generator strictly ascend in all threads, also while the clock
//! stands still or steps back, and a second that runs out of its 2^24 counters borrows from the next one.
//! A second atomic holds the maker's five bytes together with the fork generation they were made for, so that
//! a forked child sees in one comparison that it needs bytes of its own.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use crossbeam::utils::CachePadded;

use crate::clock::{Clock, SystemClock};
use crate::fork::ForkWatch;
use crate::host;
use crate::object_id::{Layout, ObjectId};

/// Bits of the counter in an id and in the newest moment.
const COUNTER_BITS: u32 = 24;

const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;

/// Bits of the random number at which the counter of a fresh second starts. It leaves at least fifteen
/// sixteenths of the second's counters, about 15.7 million ids.
const START_BITS: u32 = 20;

/// The latest second that is accepted from a clock. An id keeps only the low 32 bits; with the others the
/// generator stays in order internally past 2106. Even after the largest time there is room for 2^63 ids.
const SECONDS_MAX: u64 = 1 << 39;

/// The state that all generators of [`Layout::MachineProcess`] share. They have the same five bytes, so with
/// separate states they would repeat each other's ids.
static PROCESS: LazyLock<Arc<State>> = LazyLock::new(|| Arc::new(State::new(Layout::MachineProcess)));

/// Makes [`ObjectId`]s, from any number of threads at once.
///
/// Within one process every id is greater than all ids that the generator made before, even if the system
/// clock steps back; its seconds count again once the clock has caught up. Until then, and when more than
/// about 15 million ids are made in one second, an id's seconds are ahead of the clock. In February 2106 the
/// 32 bits of seconds wrap to zero: ids stay distinct, but sort below the older ones. (Only a clock that
/// jumps by 2^32 seconds, 136 years, can repeat an id.) A clock before 1970 counts as 1970.
///
/// After a `fork` the child uses five bytes of its own: its ids differ from its parent's.
///
/// ```
/// use cairndb_sequence::generator::Generator;
/// use cairndb_sequence::object_id::Layout;
///
/// let generator = Generator::new(Layout::MachineProcess);
/// let first = generator.generate();
/// let second = generator.generate();
/// assert!(first < second);
/// ```
pub struct Generator {
    time: Time,
    state: Arc<State>,
}

impl Generator {
    /// A generator on the system clock.
    ///
    /// All generators of [`Layout::MachineProcess`] in a process share one ascending series of ids. Each
    /// generator of [`Layout::Random`] has five random bytes and a series of its own.
    pub fn new(layout: Layout) -> Generator {
        let state = match layout {
            Layout::MachineProcess => Arc::clone(&PROCESS),
            Layout::Random => Arc::new(State::new(layout)),
        };
        Generator { time: Time::System, state }
    }

    /// A generator on the caller's clock, with a series of its own, for tests and simulations. Two such
    /// generators of [`Layout::MachineProcess`] may repeat each other's ids.
    pub fn with_clock(layout: Layout, clock: impl Clock + 'static) -> Generator {
        Generator { time: Time::Given(Box::new(clock)), state: Arc::new(State::new(layout)) }
    }

    /// The next id. Never fails, never blocks.
    #[inline]
    pub fn generate(&self) -> ObjectId {
        let origin = self.state.origin();
        let now = match &self.time {
            Time::System => SystemClock.seconds(),
            Time::Given(clock) => clock.seconds(),
        };
        compose(self.state.advance(now), origin)
    }

    /// The content of this generator's ids between seconds and counter.
    pub fn layout(&self) -> Layout {
        self.state.layout
    }
}

impl Default for Generator {
    /// A generator with the default layout on the system clock.
    fn default() -> Generator {
        Generator::new(Layout::default())
    }
}

impl fmt::Debug for Generator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Generator").field("layout", &self.layout()).finish_non_exhaustive()
    }
}

/// The source of a generator's time. The system clock is a variant of its own so that the call is inlined.
enum Time {
    System,
    Given(Box<dyn Clock>),
}

/// One series of ids.
struct State {
    layout: Layout,
    forks: ForkWatch,
    /// The counter at which a new second starts. Random, because an earlier process with the same origin may
    /// have ended within this second.
    start: u64,
    /// The maker's five bytes, then the low 24 bits of the fork generation that they belong to.
    origin: AtomicU64,
    /// Seconds and counter of the newest id. On a cache line of its own: every id writes it, and the other
    /// fields are only read.
    newest: CachePadded<AtomicU64>,
}

impl State {
    fn new(layout: Layout) -> State {
        let forks = ForkWatch::start();
        let start = u64::from(u32::from_be_bytes(host::random()) >> (u32::BITS - START_BITS));
        State {
            layout,
            forks,
            start,
            origin: AtomicU64::new(label(host::origin(layout), forks.generation())),
            newest: CachePadded::new(AtomicU64::new(start)),
        }
    }

    /// The maker's bytes, renewed if this process was forked since. The low 24 bits have no meaning for the
    /// caller.
    #[inline]
    fn origin(&self) -> u64 {
        // One word holds bytes and generation, so no ordering with other memory is needed: Relaxed.
        let known = self.origin.load(Ordering::Relaxed);
        let generation = self.forks.generation();
        if label([0; 5], generation) == known & COUNTER_MASK { known } else { self.renew(known, generation) }
    }

    #[cold]
    fn renew(&self, known: u64, generation: u32) -> u64 {
        let own = label(host::origin(self.layout), generation);
        // Several threads of a new child may come here at once. One wins, so that all its ids have the same
        // bytes.
        match self.origin.compare_exchange(known, own, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => own,
            Err(renewed) => renewed,
        }
    }

    /// Seconds and counter of the next id when the clock shows `now`.
    #[inline]
    fn advance(&self, now: u64) -> u64 {
        let now = now.min(SECONDS_MAX);
        // Relaxed throughout: ids are unique because each change of this one word is atomic, and an id
        // publishes no other memory.
        let mut newest = self.newest.load(Ordering::Relaxed);
        // The common case: the clock shows no later second. The successor is right even if other threads have
        // moved on meanwhile, and one addition cannot fail and retry as an exchange can.
        if newest >> COUNTER_BITS >= now {
            return self.newest.fetch_add(1, Ordering::Relaxed) + 1;
        }
        loop {
            // The maximum keeps ids ascending when the clock stands still or another thread's clock was
            // later.
            let next = (newest + 1).max((now << COUNTER_BITS) | self.start);
            match self.newest.compare_exchange_weak(newest, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return next,
                Err(newer) => newest = newer,
            }
        }
    }
}

/// Five bytes and the low 24 bits of `generation` in one word.
fn label(bytes: [u8; 5], generation: u32) -> u64 {
    let [b0, b1, b2, b3, b4] = bytes;
    let [_, g0, g1, g2] = generation.to_be_bytes();
    u64::from_be_bytes([b0, b1, b2, b3, b4, g0, g1, g2])
}

/// The id of a moment, of which the low 32 bits of the seconds are kept, and an origin.
#[inline]
fn compose(moment: u64, origin: u64) -> ObjectId {
    let [_, s0, s1, s2, s3, c0, c1, c2] = moment.to_be_bytes();
    let [o0, o1, o2, o3, o4, ..] = origin.to_be_bytes();
    ObjectId::from_bytes([s0, s1, s2, s3, o0, o1, o2, o3, o4, c0, c1, c2])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    /// A clock that shows what it was set to.
    #[derive(Default)]
    struct MockClock(AtomicU64);

    impl MockClock {
        fn at(seconds: u64) -> Arc<MockClock> {
            Arc::new(MockClock(AtomicU64::new(seconds)))
        }

        fn set(&self, seconds: u64) {
            self.0.store(seconds, Ordering::Relaxed);
        }
    }

    impl Clock for MockClock {
        fn seconds(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// The seconds and counter of the first id from a series whose newest id was `newest`, at the time `now`.
    #[track_caller]
    fn check_next(newest: (u64, u64), now: u64, expected: (u32, u64)) {
        let generator = Generator::with_clock(Layout::MachineProcess, MockClock::at(now));
        generator.state.newest.store((newest.0 << COUNTER_BITS) | newest.1, Ordering::Relaxed);
        let id = generator.generate();
        assert_eq!((id.timestamp(), u64::from(id.counter())), expected);
    }

    #[test]
    fn the_same_second_counts_on() {
        check_next((7, 41), 7, (7, 42));
    }

    #[test]
    fn a_clock_that_stepped_back_counts_on() {
        check_next((7, 41), 6, (7, 42));
        check_next((7, 41), 0, (7, 42));
    }

    #[test]
    fn the_last_counter_borrows_from_the_next_second() {
        check_next((7, COUNTER_MASK), 7, (8, 0));
        check_next((7, COUNTER_MASK), 3, (8, 0));
    }

    #[test]
    fn the_last_second_of_32_bits_wraps_to_zero() {
        check_next((u64::from(u32::MAX), COUNTER_MASK), 7, (0, 0));
    }

    #[test]
    fn a_later_second_starts_low_in_the_counter() {
        for now in [8, 9, 4_000_000_000] {
            let generator = Generator::with_clock(Layout::Random, MockClock::at(now));
            generator.state.newest.store(7 << COUNTER_BITS, Ordering::Relaxed);
            let id = generator.generate();
            assert_eq!(u64::from(id.timestamp()), now);
            assert_eq!(u64::from(id.counter()), generator.state.start);
            assert!(id.counter() < 1 << START_BITS);
        }
    }

    #[test]
    fn a_second_entered_early_is_not_started_again() {
        let start = Generator::with_clock(Layout::Random, MockClock::at(0)).state.start;
        check_next((8, start.max(1 << START_BITS)), 8, (8, start.max(1 << START_BITS) + 1));
    }

    #[test]
    fn time_past_2106_keeps_ids_distinct() {
        let clock = MockClock::at(u64::from(u32::MAX));
        let generator = Generator::with_clock(Layout::Random, Arc::clone(&clock));
        let before = generator.generate();
        clock.set(u64::from(u32::MAX) + 1);
        let after = generator.generate();
        assert_eq!((before.timestamp(), after.timestamp()), (u32::MAX, 0));
        let ids = (0..1_000).map(|_| generator.generate()).chain([before, after]).collect::<HashSet<_>>();
        assert_eq!(ids.len(), 1_002);
    }

    #[test]
    fn the_maddest_clock_leaves_room_to_count_on() {
        let clock = MockClock::at(u64::MAX);
        let generator = Generator::with_clock(Layout::Random, Arc::clone(&clock));
        let ids = (0..1_000).map(|_| generator.generate()).collect::<Vec<_>>();
        assert!(ids.is_sorted_by(|a, b| a < b));
        clock.set(5);
        assert!(ids.last().copied() < Some(generator.generate()));
    }

    #[test]
    fn a_clock_before_1970_gives_distinct_ids_of_second_zero() {
        let generator = Generator::with_clock(Layout::Random, MockClock::at(0));
        let (first, second) = (generator.generate(), generator.generate());
        assert_eq!((first.timestamp(), second.timestamp()), (0, 0));
        assert!(first < second);
        assert_eq!(u64::from(first.counter()), generator.state.start + 1);
    }

    #[test]
    fn ids_carry_the_time_of_the_system() {
        let before = SystemClock.seconds();
        let id = Generator::new(Layout::Random).generate();
        let after = SystemClock.seconds();
        assert!((before..=after).contains(&u64::from(id.timestamp())));
    }

    #[test]
    fn ids_of_a_machine_and_process_name_both() {
        let id = Generator::new(Layout::MachineProcess).generate();
        assert_eq!(id.origin(), host::origin(Layout::MachineProcess));
        let [.., low0, low1] = std::process::id().to_be_bytes();
        assert_eq!(id.process(), u16::from_be_bytes([low0, low1]));
    }

    #[test]
    fn all_generators_of_a_process_continue_one_series() {
        let generators = [Generator::new(Layout::MachineProcess), Generator::default()];
        let ids = (0..100).flat_map(|_| generators.iter().map(Generator::generate)).collect::<Vec<_>>();
        assert!(ids.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn random_generators_have_bytes_of_their_own() {
        let (one, two) = (Generator::new(Layout::Random), Generator::new(Layout::Random));
        assert_ne!(one.generate().origin(), two.generate().origin());
        assert_eq!(one.generate().origin(), one.generate().origin());
    }

    #[test]
    fn bytes_of_an_older_generation_are_renewed_once() {
        let generator = Generator::with_clock(Layout::Random, MockClock::at(5));
        let parent = generator.generate();
        let stale = generator.state.origin.load(Ordering::Relaxed) ^ 1;
        generator.state.origin.store(stale, Ordering::Relaxed);
        let child = generator.generate();
        assert_ne!(child.origin(), parent.origin());
        assert_eq!(generator.generate().origin(), child.origin());
    }

    fn generate_at(generator: &Generator, clock: &MockClock, seconds: u64) -> ObjectId {
        clock.set(seconds);
        generator.generate()
    }

    /// Lets `threads` threads make ids while the clock jumps through `times`, and checks that each thread's
    /// ids strictly ascend and no two are equal.
    fn check_threads(threads: usize, newest: u64, times: &[u64]) {
        let clock = MockClock::at(times.first().copied().unwrap_or_default());
        let generator = Generator::with_clock(Layout::MachineProcess, Arc::clone(&clock));
        generator.state.newest.store(newest, Ordering::Relaxed);
        let steps_of = &|maker| {
            let steps = times.iter().cycle().skip(maker).take(200);
            steps.map(|time| generate_at(&generator, &clock, *time)).collect::<Vec<_>>()
        };
        let made = thread::scope(|scope| {
            let makers = (0..threads).map(|maker| scope.spawn(move || steps_of(maker))).collect::<Vec<_>>();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect::<Vec<_>>()
        });
        for ids in &made {
            assert!(ids.is_sorted_by(|a, b| a < b));
        }
        let distinct = made.iter().flatten().collect::<HashSet<_>>();
        assert_eq!(distinct.len(), threads * 200);
    }

    #[test]
    fn eight_threads_ascend_over_the_end_of_a_second() {
        check_threads(8, (1_000 << COUNTER_BITS) | (COUNTER_MASK - 500), &[1_000]);
    }

    #[test]
    fn an_id_made_after_another_is_greater_in_every_thread() {
        let generator = Generator::new(Layout::MachineProcess);
        let latest = Mutex::new(generator.generate());
        // Each id is made while the newest is held, so it was made after it.
        let hand_on = || {
            for _ in 0..2_000 {
                let mut found = latest.lock().unwrap();
                let next = generator.generate();
                assert!(next > *found);
                *found = next;
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(hand_on))));
    }

    fn time() -> impl Strategy<Value = u64> {
        prop_oneof![0..4_u64, 1_000..1_004_u64, any::<u32>().prop_map(u64::from)]
    }

    proptest! {
        #[test]
        fn ids_strictly_ascend_whatever_the_clock_does(
            times in prop::collection::vec(time(), 1..200),
            second in time(),
            left in 0..50_u64,
        ) {
            // One second of room, because borrowing past the last second of 32 bits wraps by design.
            let clock = MockClock::at(0);
            let generator = Generator::with_clock(Layout::Random, Arc::clone(&clock));
            let second = second.min(u64::from(u32::MAX) - 1);
            generator.state.newest.store((second << COUNTER_BITS) | (COUNTER_MASK - left), Ordering::Relaxed);
            let mut previous = compose(generator.state.newest.load(Ordering::Relaxed), generator.state.origin());
            for time in times {
                clock.set(time.min(u64::from(u32::MAX) - 1));
                let id = generator.generate();
                prop_assert!(id > previous, "{id} after {previous}");
                prop_assert!(u64::from(id.timestamp()) >= time.min(u64::from(u32::MAX) - 1));
                previous = id;
            }
        }
    }

    proptest! {
        // Each case starts eight threads.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn eight_threads_never_repeat_an_id(
            times in prop::collection::vec(time(), 1..20),
            second in 0..2_000_u64,
            left in 0..2_000_u64,
        ) {
            let times = times.into_iter().map(|time| time.min(u64::from(u32::MAX) - 1)).collect::<Vec<_>>();
            check_threads(8, (second << COUNTER_BITS) | (COUNTER_MASK - left), &times);
        }
    }
}
