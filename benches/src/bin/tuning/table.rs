//! A table in Markdown whose rows are variants, and whose cells are medians of rounds with a ratio to the first row.

use std::fmt::Write as _;
use std::time::Duration;

use rocksdb::DB;

/// The measured values of one variant: for each column a value a round.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) rounds: Vec<Vec<f64>>,
}

impl Row {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, rounds: Vec::new() }
    }

    /// The median of each column.
    fn medians(&self) -> Vec<f64> {
        let columns = self.rounds.first().map_or(0, Vec::len);
        let column = |at: usize| {
            let mut values: Vec<f64> =
                self.rounds.iter().filter_map(|round| round.get(at).copied()).collect();
            values.sort_unstable_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
        };
        (0..columns).map(column).collect()
    }
}

/// Microseconds for each of `count`.
pub(crate) fn micros(time: Duration, count: u32) -> f64 {
    time.as_secs_f64() * 1e6 / f64::from(count)
}

/// The bytes in tables for each of `documents`.
pub(crate) fn bytes_in_tables(database: &DB, documents: u32) -> f64 {
    let tables = database.live_files().expect("the list of tables");
    let bytes: usize = tables.iter().map(|table| table.size).sum();
    f64::from(u32::try_from(bytes).expect("less than 4 GiB")) / f64::from(documents)
}

/// Prints the rows: each cell is the median, and in brackets the median over that of the first row.
#[expect(clippy::print_stdout, reason = "printing figures is what this program is for")]
pub(crate) fn print(columns: &[&str], rows: &[Row]) {
    let mut text = format!("| options | {} |\n|---|{}\n", columns.join(" | "), "---:|".repeat(columns.len()));
    let first = rows.first().map(Row::medians).unwrap_or_default();
    for row in rows {
        let cells: Vec<String> = row
            .medians()
            .iter()
            .zip(&first)
            .map(|(median, first)| format!("{median:.3} ({:.2})", median / first))
            .collect();
        writeln!(text, "| {} | {} |", row.name, cells.join(" | ")).expect("a string takes all text");
    }
    println!("{text}");
}
