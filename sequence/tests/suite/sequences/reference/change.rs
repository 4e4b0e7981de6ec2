//! Changes of the reference as a whole: attributes, current value, restart, truncation, name.

use cairndb_sequence::attributes::{Contract, Options};
use cairndb_sequence::store::Cause;

use crate::sequences::reference::{ORDERED, Reference, Refused};

impl Reference {
    pub(crate) fn set_current_value(&mut self, acquirer: usize, value: i128) -> Result<(), Refused> {
        let before = self.clone();
        if self.initial {
            self.pretend_first_reserve();
            self.write_or(before)?;
        }
        let declared = self.declared.clone();
        let slot = if declared.contract == Contract::Ordered { ORDERED } else { acquirer };
        if let Some(own) = self.block(slot).filter(|block| !block.rest.is_empty()) {
            if declared.beyond(own.next, value) {
                return Err(Refused::ValueUsed);
            }
            if declared.beyond(own.last, value) {
                self.skip_to(slot, value);
                self.drop_others(slot, value);
                return Ok(());
            }
        }
        if self.is_exhausted() || !declared.beyond(value, self.used) {
            return Err(Refused::ValueUsed);
        }
        let before = self.clone();
        self.drop_all(Cause::ExplicitValue);
        self.jump(value, Some(value));
        self.write_or(before)
    }

    fn pretend_first_reserve(&mut self) {
        let inside = self.declared.holds(self.high_water);
        self.initial = false;
        self.used = self.high_water;
        if inside {
            self.lose([self.used], Cause::ExplicitValue);
        }
        let cache = if self.declared.contract == Contract::Gapless { 1 } else { self.declared.cache };
        for _ in 1..cache {
            if !self.passes_limit(self.high_water + self.declared.increment) {
                self.high_water += self.declared.increment;
            }
        }
    }

    pub(crate) fn restart(&mut self, value: i128) -> Result<(), Refused> {
        if !self.declared.holds(value) {
            return Err(Refused::Range("value"));
        }
        let before = self.clone();
        self.drop_all(Cause::Restart);
        self.begin_at(value);
        self.write_or(before)
    }

    pub(crate) fn truncate(&mut self) -> Result<(), Refused> {
        let before = self.clone();
        self.drop_all(Cause::Restart);
        self.begin_at(self.declared.start);
        self.cycled_count = 0;
        self.version += 1;
        self.write_or(before)
    }

    fn begin_at(&mut self, value: i128) {
        self.high_water = value;
        self.used = value;
        self.initial = true;
        self.era += 1;
    }

    pub(crate) fn rename(&mut self) -> Result<(), Refused> {
        let before = self.clone();
        self.drop_all(Cause::Alter);
        self.version += 1;
        self.write_or(before)
    }

    pub(crate) fn alter(&mut self, options: &Options) -> Result<(), Refused> {
        let altered = self.declared.altered(options);
        let current = options.current_value.map(i128::from);
        if current.is_some_and(|value| !altered.holds(value)) {
            return Err(Refused::Range("CurrentValue"));
        }
        let changes = altered != self.declared;
        if changes {
            altered.check()?;
        } else if current.is_none() {
            return Ok(());
        }
        let before = self.clone();
        self.drop_all(Cause::Alter);
        if let Some(value) = current {
            self.list_up_to(value);
        }
        let turned = altered.increment.signum() != self.declared.increment.signum();
        let restarts = self.initial && altered.start != self.declared.start;
        if self.declared.cycled && !altered.cycled {
            self.cycled_count = 0;
        }
        if altered.increment != self.declared.increment || current.is_some() {
            self.era += 1;
        }
        self.declared = altered;
        self.version += 1;
        if restarts {
            self.begin_at(self.declared.start);
        }
        let gapless = self.declared.contract == Contract::Gapless;
        if !self.initial && (turned || gapless || !self.declared.holds(self.high_water)) {
            self.high_water = self.used;
        }
        if let Some(value) = current {
            (self.high_water, self.used, self.initial) = (value, value, false);
        }
        self.write_or(before)
    }

    /// A new current value: terms before it that no acquirer held are lost.
    fn list_up_to(&mut self, value: i128) {
        let outside = self.initial && !self.declared.holds(self.high_water);
        let mut term = if self.initial { self.high_water } else { self.used + self.declared.increment };
        while !outside && !self.is_exhausted() && self.declared.beyond(value, term) {
            self.lose([term], Cause::ExplicitValue);
            term += self.declared.increment;
        }
    }

    /// Drops what other acquirers have up to `value`.
    fn drop_others(&mut self, slot: usize, value: i128) {
        for other in (0..self.blocks.len()).filter(|other| *other != slot) {
            let declared = &self.declared;
            if !self.block(other).is_some_and(|block| declared.beyond(block.next, value)) {
                self.drop_block(other, Cause::ExplicitValue, None);
            }
        }
    }
}
