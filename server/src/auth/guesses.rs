//! Slows the guessing of passwords, however many connections guess. Failures are remembered for each user at
//! an address, and for each address with all its users together.
//!
//! After a few failures further guesses wait for their turn, and each failure doubles the time between two
//! turns. A guess that would have to wait for too long is rejected. A user is slowed only at the addresses
//! where the guesses come from.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The failures of a user at an address after which the next guess still need not wait.
const FREE_OF_USER: u32 = 3;
/// The failures at an address after which the next guess still need not wait. Many users may share an
/// address.
const FREE_OF_ADDRESS: u32 = 20;
/// The longest time between two guesses of a user's password at an address, in pauses: 10 seconds if a pause
/// is 0.2.
const PAUSES_MAX: u32 = 50;
/// The time for which failures are remembered.
const MEMORY: Duration = Duration::from_secs(15 * 60);
/// The highest number of users and addresses that are remembered.
const SOURCES_MAX: usize = 10_000;

/// The recent failures of logins.
pub(crate) struct Guesses {
    sources: Mutex<HashMap<GuessSource, Failures>>,
    pause: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GuessSource {
    Address(String),
    User { name: String, address: String },
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    /// The time from which the next guess may be checked.
    next: Instant,
}

/// Too many guesses are waiting already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany {
    /// After this time there is a turn that need not be waited for too long, unless others get it.
    pub(crate) again: Duration,
}

impl Guesses {
    /// `pause` is the time after a failure, from which all other times are computed.
    pub(crate) fn new(pause: Duration) -> Self {
        Self { sources: Mutex::default(), pause }
    }

    /// Reserves the next turn for a guess. Returns how long to wait for it.
    pub(crate) fn take_turn(&self, user: &str, address: &str, now: Instant) -> Result<Duration, TooMany> {
        let mut sources = self.sources.lock();
        let of = GuessSource::both(user, address);
        let waits = of.iter().filter_map(|source| sources.get(source)).map(|failures| failures.next);
        let wait = waits.map(|next| next.saturating_duration_since(now)).max().unwrap_or_default();
        // Rejected before a turn is reserved: a rejected guess must not delay the guesses after it.
        let again = wait.saturating_sub(self.pause * PAUSES_MAX);
        if !again.is_zero() {
            return Err(TooMany { again });
        }
        for source in &of {
            let Some(failures) = sources.get_mut(source) else { continue };
            let interval = self.interval(source, failures.count);
            // The turn is reserved now, before the guess is checked, so that guesses sent together wait for each
            // other.
            if !interval.is_zero() {
                failures.next = failures.next.max(now + wait) + interval;
            }
        }
        Ok(wait)
    }

    /// Remembers a failed login.
    pub(crate) fn note(&self, user: &str, address: &str, now: Instant) {
        let mut sources = self.sources.lock();
        for source in GuessSource::both(user, address) {
            // An attacker with many addresses must not fill the memory.
            if sources.len() >= SOURCES_MAX && !sources.contains_key(&source) {
                make_room(&mut sources, now);
            }
            let failures = sources.entry(source.clone()).or_insert(Failures { count: 0, next: now });
            // Old failures are forgotten when the next one comes; no task has to look for them.
            if now.saturating_duration_since(failures.next) > MEMORY {
                failures.count = 0;
            }
            failures.count = failures.count.saturating_add(1);
            failures.next = failures.next.max(now + self.interval(&source, failures.count));
        }
    }

    /// Forgets the failures of a user at an address, after a successful login.
    pub(crate) fn forget(&self, user: &str, address: &str) {
        // The address keeps its failures: a guesser with one account of its own could otherwise clear them.
        let [_, of_user] = GuessSource::both(user, address);
        self.sources.lock().remove(&of_user);
    }

    /// The time between two guesses after `failures` failures.
    fn interval(&self, source: &GuessSource, failures: u32) -> Duration {
        match source {
            // Not more and more: others who share the address would be kept out.
            GuessSource::Address(_) if failures > FREE_OF_ADDRESS => self.pause,
            GuessSource::User { .. } if failures > FREE_OF_USER => {
                // Bounded before the shift, which would otherwise overflow after 32 failures.
                let doublings = (failures - FREE_OF_USER).min(PAUSES_MAX.ilog2() + 1);
                self.pause * PAUSES_MAX.min(1 << doublings)
            }
            GuessSource::Address(_) | GuessSource::User { .. } => Duration::ZERO,
        }
    }
}

impl GuessSource {
    fn both(user: &str, address: &str) -> [Self; 2] {
        let address = address.to_owned();
        [Self::Address(address.clone()), Self::User { name: user.to_owned(), address }]
    }
}

/// Forgets old failures. If that is not enough, forgets the half with the shortest waits.
fn make_room(sources: &mut HashMap<GuessSource, Failures>, now: Instant) {
    sources.retain(|_, failures| now.saturating_duration_since(failures.next) <= MEMORY);
    if sources.len() < SOURCES_MAX {
        return;
    }
    let mut times: Vec<Instant> = sources.values().map(|failures| failures.next).collect();
    // The median in linear time: this runs under the lock while an attack is going on.
    let (_, middle, _) = times.select_nth_unstable(SOURCES_MAX / 2);
    sources.retain(|_, failures| failures.next > *middle);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(200);

    /// Guesses of a user's password as fast as they are accepted; how many are looked at within that time.
    fn guessed_within(time: Duration, users: u32) -> u32 {
        let (guesses, start) = (Guesses::new(PAUSE), Instant::now());
        let (mut now, mut tried) = (start, 0);
        while now < start + time {
            let user = format!("user{}", tried % users);
            match guesses.take_turn(&user, "192.0.2.1", now) {
                Ok(wait) => {
                    now += wait;
                    guesses.note(&user, "192.0.2.1", now);
                    tried += 1;
                }
                Err(TooMany { again }) => now += again.max(PAUSE),
            }
        }
        tried
    }

    #[test]
    fn a_password_is_guessed_six_times_a_minute_in_the_end() {
        assert!((300..450).contains(&guessed_within(Duration::from_secs(3600), 1)));
        // Of many users at one address: five times a second.
        assert!((1000..1900).contains(&guessed_within(Duration::from_secs(300), 1000)));
    }

    #[test]
    fn guesses_at_the_same_time_wait_for_each_other() {
        let (guesses, now) = (Guesses::new(PAUSE), Instant::now());
        for _ in 0..20 {
            guesses.note("ada", "192.0.2.1", now);
        }
        let waits: Vec<_> = (0..100).map(|_| guesses.take_turn("ada", "192.0.2.1", now)).collect();
        assert!(waits.iter().filter(|wait| wait.is_ok()).count() <= 2, "{waits:?}");
        assert_eq!(guesses.take_turn("ada", "192.0.2.2", now), Ok(Duration::ZERO));
        assert!(guesses.take_turn("bob", "192.0.2.1", now).is_ok());
    }

    #[test]
    fn a_few_mistakes_cost_nothing_and_a_success_clears_the_rest() {
        let (guesses, now) = (Guesses::new(PAUSE), Instant::now());
        let wait = |guesses: &Guesses| guesses.take_turn("ada", "192.0.2.1", now);
        for _ in 0..FREE_OF_USER {
            guesses.note("ada", "192.0.2.1", now);
        }
        assert_eq!(wait(&guesses), Ok(Duration::ZERO));
        guesses.note("ada", "192.0.2.1", now);
        assert_eq!(wait(&guesses), Ok(2 * PAUSE));
        guesses.forget("ada", "192.0.2.1");
        assert_eq!(wait(&guesses), Ok(Duration::ZERO));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_passes() {
        let (guesses, now) = (Guesses::new(PAUSE), Instant::now());
        for address in 0..2 * SOURCES_MAX {
            guesses.note("ada", &address.to_string(), now);
        }
        assert!(guesses.sources.lock().len() <= SOURCES_MAX);
        let later = now + 2 * MEMORY;
        guesses.note("ada", "another", later);
        assert_eq!(guesses.sources.lock().len(), 2);
    }
}
