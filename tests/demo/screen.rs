//! What is written: lines of one width, with headings in color where the terminal has colors, and numbers that can be read.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::outcome::Outcome;

/// Characters of a line.
const WIDTH: usize = 110;
const BOLD: &str = "\u{1b}[1;36m";
const PLAIN: &str = "\u{1b}[0m";

/// Standard output.
pub(crate) struct Screen {
    has_colors: bool,
    steps: u32,
}

impl Screen {
    pub(crate) fn new() -> Self {
        // https://no-color.org: any value but none.
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { has_colors: io::stdout().is_terminal() && !is_refused, steps: 0 }
    }

    /// The heading of the next step.
    pub(crate) fn step(&mut self, text: &str) -> Outcome<()> {
        self.steps += 1;
        let (before, after) = if self.has_colors { (BOLD, PLAIN) } else { ("", "") };
        writeln!(io::stdout(), "{before}{} {text}{after}", self.steps)?;
        Ok(())
    }
}

/// A line below a heading.
pub(crate) fn line(text: &str) -> Outcome<()> {
    writeln!(io::stdout(), "  {}", shortened(text))?;
    Ok(())
}

/// A text that fits on a line, without control characters.
fn shortened(text: &str) -> String {
    let mut characters = text.chars().map(|character| if character.is_control() { ' ' } else { character });
    let mut line: String = characters.by_ref().take(WIDTH).collect();
    if characters.next().is_some() {
        line.push('…');
    }
    line
}

/// `count` in a second.
pub(crate) fn per_second(count: u64, time: Duration) -> u64 {
    let nanoseconds = time.as_nanos().max(1);
    u64::try_from(u128::from(count) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}

/// The same, in words.
pub(crate) fn rate(count: u64, time: Duration) -> String {
    let rate = per_second(count, time);
    // Three digits are all that a single run can show.
    let unit = 10_u64.pow(rate.checked_ilog10().unwrap_or(0).saturating_sub(2));
    format!("{} a second", grouped(rate / unit * unit))
}

/// A duration in the unit that it is read in.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 0.1 { format!("{:.1} ms", seconds * 1000.0) } else { format!("{seconds:.2} s") }
}

/// A number with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
