//! A sequence as the contract describes it, and nothing more: values are stepped one by one in 128 bits and
//! blocks are lists. It is slow, it knows no threads, and it shares no code with what it is compared to.
//!
//! Every operation is all or nothing for each of its writes: `Refused::Disk` leaves what was before that
//! write.

mod change;
mod declared;

use std::collections::VecDeque;

use cairndb_sequence::attributes::Contract;
use cairndb_sequence::store::Cause;

pub(crate) use self::declared::Declared;

const GREATEST: i128 = i64::MAX as i128;

/// The reason why an operation was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Exceeded,
    ValueUsed,
    NeverUsed,
    Range(&'static str),
    Retired,
    Disk,
}

/// A value that was handed out, and the era to which it belongs: in one era, no value comes twice.
pub(crate) type Handed = (u64, i128);

#[derive(Clone, Debug)]
struct Block {
    rest: VecDeque<i128>,
    last: i128,
    /// The value before the rest, if there is one.
    before: Option<i128>,
    /// The term after the last one taken or skipped; beyond the block if that is used up.
    next: i128,
    untouched: bool,
    era: u64,
    origin: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progress {
    used: i128,
    initial: bool,
    cycled_count: i128,
    era: u64,
}

/// A lost value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) value: i128,
    pub(crate) cause: Cause,
    pub(crate) era: u64,
}

/// The whole sequence: the store, the acquirers and the ledger.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) declared: Declared,
    pub(crate) version: i128,
    pub(crate) high_water: i128,
    pub(crate) used: i128,
    pub(crate) initial: bool,
    pub(crate) cycled_count: i128,
    pub(crate) era: u64,
    /// Values listed as lost by writes that happened, and by the next one.
    pub(crate) listed: Vec<Lost>,
    pub(crate) pending: Vec<Lost>,
    /// The number of writes that succeed before one fails.
    pub(crate) failing_after: Option<u64>,
    blocks: Vec<Option<Block>>,
    durable: Durable,
    touched: bool,
}

/// The state that survives a crash.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    declared: Declared,
    version: i128,
    pub(crate) high_water: i128,
    pub(crate) initial: bool,
    cycled_count: i128,
    era: u64,
}

/// The slot of ordered sequences, after the shared acquirer's and two others.
pub(crate) const ORDERED: usize = 3;

impl Reference {
    pub(crate) fn new(declared: Declared) -> Self {
        let start = declared.start;
        let durable = Durable {
            declared: declared.clone(),
            version: 0,
            high_water: start,
            initial: true,
            cycled_count: 0,
            era: 0,
        };
        Self {
            declared,
            version: 0,
            high_water: start,
            used: start,
            initial: true,
            cycled_count: 0,
            era: 0,
            listed: Vec::new(),
            pending: Vec::new(),
            failing_after: None,
            blocks: vec![None; ORDERED + 1],
            durable,
            touched: false,
        }
    }

    /// Takes up to `count` values.
    pub(crate) fn take(&mut self, acquirer: usize, count: usize) -> Result<Vec<Handed>, Refused> {
        let slot = match self.declared.contract {
            Contract::Fast => acquirer,
            Contract::Ordered => ORDERED,
            Contract::Gapless => return self.take_exactly(count),
        };
        if self.block(slot).is_none_or(|block| block.rest.is_empty()) {
            self.acquire(slot)?;
        }
        let increment = self.declared.increment;
        let Some(block) = self.block_mut(slot) else { return Ok(Vec::new()) };
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some(value) = block.rest.pop_front()
        {
            (block.before, block.next, block.untouched) = (Some(value), value + increment, false);
            taken.push((block.era, value));
        }
        Ok(taken)
    }

    fn take_exactly(&mut self, count: usize) -> Result<Vec<Handed>, Refused> {
        let before = self.clone();
        let size = i128::try_from(count).unwrap_or(GREATEST).min(self.declared.acquire);
        let (values, _) = self.next_values(size, size)?;
        self.write_or(before)?;
        Ok(values.into_iter().map(|value| (self.era, value)).collect())
    }

    /// A block for a slot.
    fn acquire(&mut self, slot: usize) -> Result<(), Refused> {
        let before = self.clone();
        let origin = self.progress();
        let (values, must_write) = self.next_values(self.declared.acquire, self.declared.cache)?;
        if must_write {
            self.write_or(before)?;
        }
        self.put(slot, values, origin);
        Ok(())
    }

    fn put(&mut self, slot: usize, values: Vec<i128>, origin: Progress) {
        let (Some(first), Some(last)) = (values.first(), values.last()) else { return };
        let block = Block {
            last: *last,
            before: (!origin.initial).then_some(origin.used),
            next: *first,
            untouched: true,
            era: self.era,
            origin,
            rest: values.into(),
        };
        self.touched = true;
        if let Some(held) = self.blocks.get_mut(slot) {
            *held = Some(block);
        }
    }

    /// The next block's values, and whether they must be written first.
    fn next_values(&mut self, acquire: i128, cache: i128) -> Result<(Vec<i128>, bool), Refused> {
        let outside = self.initial && !self.declared.holds(self.high_water);
        let mut fresh = self.initial;
        if outside || self.is_exhausted() {
            if !self.declared.cycled {
                return Err(Refused::Exceeded);
            }
            self.high_water = self.declared.edge();
            self.cycled_count += 1;
            self.era += 1;
            fresh = true;
        }
        let increment = self.declared.increment;
        let mut value = if fresh { self.high_water } else { self.used + increment };
        let mut values = Vec::new();
        while i128::try_from(values.len()).unwrap_or(GREATEST) < acquire && !self.passes_limit(value) {
            values.push(value);
            value += increment;
        }
        let last = values.last().copied().expect("a value is left");
        let mut must_write = fresh;
        if self.declared.beyond(last, self.high_water) {
            let mut steps = if fresh { cache - 1 } else { cache };
            while steps > 0 && !self.passes_limit(self.high_water + increment) {
                self.high_water += increment;
                steps -= 1;
            }
            if self.declared.beyond(last, self.high_water) {
                self.high_water = last;
            }
            must_write = true;
        }
        self.used = last;
        self.initial = false;
        Ok((values, must_write || self.is_exhausted()))
    }

    /// Announces a value that a document brings.
    pub(crate) fn announce(&mut self, acquirer: usize, value: i128) -> Result<(), Refused> {
        let slot = match self.declared.contract {
            Contract::Fast => acquirer,
            Contract::Ordered => ORDERED,
            Contract::Gapless => return self.announce_exactly(value),
        };
        self.announce_to(slot, value)?;
        for other in (0..self.blocks.len()).filter(|other| *other != slot) {
            self.skip_within(other, value);
        }
        Ok(())
    }

    fn announce_to(&mut self, slot: usize, value: i128) -> Result<(), Refused> {
        if self.block(slot).is_none() {
            match self.acquire(slot) {
                Err(Refused::Exceeded) => return Ok(()),
                other => other?,
            }
        }
        let declared = self.declared.clone();
        let Some((next, last)) = self.block(slot).map(|block| (block.next, block.last)) else {
            return Ok(());
        };
        if declared.beyond(next, value) {
            return Ok(());
        }
        if declared.beyond(last, value) {
            self.skip_within(slot, value);
            return Ok(());
        }
        let before = self.clone();
        self.drop_block(slot, Cause::ExplicitValue, Some(value));
        self.jump(value, Some(value));
        let origin = self.progress();
        let acquired = self.next_values(declared.acquire, declared.cache);
        self.write_or(before)?;
        if let Ok((values, _)) = acquired {
            self.put(slot, values, origin);
        }
        Ok(())
    }

    fn announce_exactly(&mut self, value: i128) -> Result<(), Refused> {
        let before = self.clone();
        if self.jump(value, Some(value)) { self.write_or(before) } else { Ok(()) }
    }

    /// A batch of a gapless writer: values for `None`, brought values otherwise. Written or abandoned as a
    /// whole.
    pub(crate) fn number(&mut self, steps: &[Option<i128>], published: bool) -> Result<Vec<Handed>, Refused> {
        if self.declared.contract != Contract::Gapless {
            return Err(Refused::Retired);
        }
        let before = self.clone();
        let mut values = Vec::new();
        for step in steps {
            match step {
                Some(value) => {
                    self.jump(*value, Some(*value));
                }
                None => match self.next_values(1, 1) {
                    Ok((taken, _)) => values.extend(taken.into_iter().map(|value| (self.era, value))),
                    Err(refused) => {
                        *self = before;
                        return Err(refused);
                    }
                },
            }
        }
        if published {
            self.write_or(before)?;
            return Ok(values);
        }
        *self = before;
        Ok(Vec::new())
    }

    pub(crate) fn give_up(&mut self, acquirer: usize) {
        let slot = if self.declared.contract == Contract::Ordered { ORDERED } else { acquirer };
        self.drop_block(slot, Cause::Conflict, None);
    }

    /// The rest of an acquirer's block is given back if the store can go on there, else it is lost.
    pub(crate) fn close_acquirer(&mut self, acquirer: usize) {
        self.give_back(vec![acquirer]);
    }

    /// A clean close and a new start. If its write fails, that is a crash.
    pub(crate) fn reopen(&mut self) -> Result<(), Refused> {
        if !self.touched {
            self.crash();
            return Ok(());
        }
        let before = self.clone();
        self.give_back((0..self.blocks.len()).collect());
        if !self.initial {
            self.high_water = self.used;
        }
        if let Err(refused) = self.write_or(before) {
            self.crash();
            return Err(refused);
        }
        self.start_again();
        Ok(())
    }

    /// Only what was written survives; what it covers counts as used.
    pub(crate) fn crash(&mut self) {
        self.start_again();
        let durable = self.durable.clone();
        self.declared = durable.declared;
        self.version = durable.version;
        self.high_water = durable.high_water;
        self.used = durable.high_water;
        self.initial = durable.initial;
        self.cycled_count = durable.cycled_count;
        self.era = durable.era;
    }

    /// Values that are lost if the process ends now. Those from before the sequence started over come again.
    pub(crate) fn lost_by_a_crash(&self) -> Vec<i128> {
        let era = self.durable.era;
        let pending = self.pending.iter().filter(|lost| lost.era == era);
        let mut lost: Vec<i128> = pending.map(|lost| lost.value).collect();
        for block in self.blocks.iter().flatten().filter(|block| block.era == era) {
            lost.extend(&block.rest);
        }
        let mut value = self.used + self.declared.increment;
        while self.era == era && !self.initial && !self.declared.beyond(value, self.high_water) {
            lost.push(value);
            value += self.declared.increment;
        }
        lost
    }

    /// Whether a value that was just announced counts as handed out. It does not beyond the limits, and not
    /// if the acquirer has nothing or values from before the sequence started over.
    pub(crate) fn takes_note(&self, acquirer: usize, value: i128) -> bool {
        let era = match self.declared.contract {
            Contract::Fast => self.block(acquirer).map(|block| block.era),
            Contract::Ordered => self.block(ORDERED).map(|block| block.era),
            Contract::Gapless => (!self.initial && !self.is_exhausted()).then_some(self.era),
        };
        era == Some(self.era) && self.declared.holds(value)
    }

    /// Takes over what a crash listed as lost.
    pub(crate) fn adopt(&mut self, values: impl Iterator<Item = i128>) {
        self.lose(values, Cause::Crash);
    }

    fn start_again(&mut self) {
        self.blocks = vec![None; ORDERED + 1];
        self.pending.clear();
        self.failing_after = None;
        self.touched = false;
    }

    /// The last value that was taken through the slot; else the end of the reserve.
    pub(crate) fn current_value(&self, acquirer: usize) -> Result<i128, Refused> {
        if self.initial {
            return Err(Refused::NeverUsed);
        }
        let slot = if self.declared.contract == Contract::Ordered { ORDERED } else { acquirer };
        Ok(self.block(slot).and_then(|block| block.before).unwrap_or(self.high_water))
    }

    /// The state that survives a crash.
    pub(crate) fn durable(&self) -> &Durable {
        &self.durable
    }

    /// Values in blocks and in the store.
    pub(crate) fn remaining(&self) -> i128 {
        let in_blocks: usize = self.blocks.iter().flatten().map(|block| block.rest.len()).sum();
        let outside = self.initial && !self.declared.holds(self.high_water);
        let next = if self.initial { self.high_water } else { self.used + self.declared.increment };
        let in_store = if outside || self.is_exhausted() {
            0
        } else {
            (self.declared.limit() - next) / self.declared.increment + 1
        };
        (in_store + i128::try_from(in_blocks).unwrap_or(GREATEST)).min(i128::from(u64::MAX))
    }

    /// Whether a value does not come again after a crash, or belongs to a cycle that is over.
    pub(crate) fn covers(&self, (era, value): Handed) -> bool {
        let durable = &self.durable;
        era != durable.era || !durable.initial && !durable.declared.beyond(value, durable.high_water)
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        !self.initial
            && (self.passes_limit(self.used + self.declared.increment)
                || self.declared.beyond(self.declared.edge(), self.used))
    }

    fn passes_limit(&self, value: i128) -> bool {
        self.declared.beyond(value, self.declared.limit())
    }

    fn progress(&self) -> Progress {
        Progress { used: self.used, initial: self.initial, cycled_count: self.cycled_count, era: self.era }
    }

    fn lose(&mut self, values: impl IntoIterator<Item = i128>, cause: Cause) {
        let era = self.era;
        self.pending.extend(values.into_iter().map(|value| Lost { value, cause, era }));
    }

    fn block(&self, slot: usize) -> Option<&Block> {
        self.blocks.get(slot)?.as_ref()
    }

    fn block_mut(&mut self, slot: usize) -> Option<&mut Block> {
        self.blocks.get_mut(slot)?.as_mut()
    }

    /// Moves the store past `value`. The terms in between are lost, except for `spared`. Returns whether it
    /// moved.
    fn jump(&mut self, value: i128, spared: Option<i128>) -> bool {
        let outside = self.initial && !self.declared.holds(self.high_water);
        let mut term = if self.initial { self.high_water } else { self.used + self.declared.increment };
        if outside || self.is_exhausted() || self.declared.beyond(term, value) {
            return false;
        }
        let mut passed = Vec::new();
        while !self.declared.beyond(term, value) && !self.passes_limit(term) {
            passed.push(term);
            term += self.declared.increment;
        }
        self.used = passed.last().copied().expect("a term is passed");
        if self.passes_limit(term) {
            self.used = self.declared.limit();
        }
        self.lose(passed.into_iter().filter(|term| Some(*term) != spared), Cause::ExplicitValue);
        if self.initial || self.declared.beyond(self.used, self.high_water) {
            self.high_water = self.used;
        }
        self.initial = false;
        true
    }

    /// Skips up to `value` if that lies in the block's rest.
    fn skip_within(&mut self, slot: usize, value: i128) {
        let declared = self.declared.clone();
        let Some(block) = self.block(slot) else { return };
        let Some(first) = block.rest.front() else { return };
        if !declared.beyond(*first, value) && !declared.beyond(value, block.last) {
            self.skip_to(slot, value);
        }
    }

    fn skip_to(&mut self, slot: usize, value: i128) {
        let declared = self.declared.clone();
        let Some(block) = self.block_mut(slot) else { return };
        let era = block.era;
        let mut lost = Vec::new();
        while let Some(term) = block.rest.front().copied().filter(|term| !declared.beyond(*term, value)) {
            block.rest.pop_front();
            (block.before, block.next, block.untouched) = (Some(term), term + declared.increment, false);
            if term != value {
                lost.push(Lost { value: term, cause: Cause::ExplicitValue, era });
            }
        }
        self.pending.extend(lost);
    }

    fn drop_block(&mut self, slot: usize, cause: Cause, spared: Option<i128>) {
        let Some(Block { rest, era, .. }) = self.blocks.get_mut(slot).and_then(Option::take) else { return };
        let lost = rest.into_iter().filter(|value| Some(*value) != spared);
        self.pending.extend(lost.map(|value| Lost { value, cause, era }));
    }

    fn drop_all(&mut self, cause: Cause) {
        for slot in 0..self.blocks.len() {
            self.drop_block(slot, cause, None);
        }
    }

    fn give_back(&mut self, slots: Vec<usize>) {
        let mut blocks: Vec<Block> = slots
            .into_iter()
            .filter_map(|slot| self.blocks.get_mut(slot).and_then(Option::take))
            .filter(|block| !block.rest.is_empty())
            .collect();
        let is_tail =
            |own: &Self, block: &Block| !own.initial && block.last == own.used && block.era == own.era;
        while let Some(tail) = blocks.iter().position(|block| is_tail(self, block)) {
            let block = blocks.swap_remove(tail);
            match block.before.filter(|_| !block.untouched) {
                Some(before) => self.used = before,
                None => self.go_back_to(block.origin),
            }
        }
        for block in blocks {
            let lost = |value| Lost { value, cause: Cause::AcquirerClosed, era: block.era };
            self.pending.extend(block.rest.into_iter().map(lost));
        }
    }

    fn go_back_to(&mut self, progress: Progress) {
        let same_cycle = progress.era == self.era;
        self.used = progress.used;
        self.initial = progress.initial;
        self.cycled_count = progress.cycled_count;
        self.era = progress.era;
        if self.initial || !same_cycle {
            self.high_water = self.used;
        }
    }

    /// Makes the current state durable, or goes back to `before`.
    fn write_or(&mut self, before: Self) -> Result<(), Refused> {
        if self.failing_after == Some(0) {
            *self = before;
            return Err(Refused::Disk);
        }
        self.failing_after = self.failing_after.map(|left| left - 1);
        self.listed.append(&mut self.pending);
        self.touched = true;
        self.durable = Durable {
            declared: self.declared.clone(),
            version: self.version,
            high_water: self.high_water,
            initial: self.initial,
            cycled_count: self.cycled_count,
            era: self.era,
        };
        Ok(())
    }
}
