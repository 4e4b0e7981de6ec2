//! The plot on the first page, drawn from the table below it: bars of each row, as long as the row's best is to them. Its colors
//! and its words can be read on a white page and on a dark one.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::tree::{Finding, Tree};

const PLOT: &str = "docs/performance.svg";
const HEADING: &str = "\n## Performance\n";
/// Of the stores in their order. Each has a contrast of at least 3 with white and with the dark gray of pages.
const COLORS: [&str; 4] = ["#d1680f", "#7a7fd6", "#3f9a57", "#a46fb0"];
/// Of words: between both pages.
const GRAY: &str = "#747d87";
const WIDTH: u64 = 660;
const BARS_AT: u64 = 200;
const BAR_MAX: u64 = 380;
const BAR: u64 = 9;
const GAP: u64 = 14;
const LEGEND: u64 = 26;

/// The names of the stores, and each kind of work with the operations a second.
struct Table<'t> {
    stores: Vec<&'t str>,
    rows: Vec<(&'t str, Vec<Option<u64>>)>,
}

/// Whether the plot is out of date. `CAIRNDB_WRITE_DOCS=1` draws it anew.
pub(crate) fn stale(tree: &Tree, root: &Path) -> Vec<Finding> {
    let readme =
        tree.files.iter().find(|file| file.path == "README.md").map_or("", |file| file.text.as_str());
    let plot = drawn(&table(readme));
    if std::env::var_os("CAIRNDB_WRITE_DOCS").is_some() {
        fs::write(root.join(PLOT), &plot).unwrap_or_else(|error| panic!("{PLOT}: {error}"));
    }
    if fs::read_to_string(root.join(PLOT)).unwrap_or_default() == plot {
        return Vec::new();
    }
    let what = "it is not the table of README.md: draw it with CAIRNDB_WRITE_DOCS=1".to_owned();
    vec![Finding { path: PLOT.to_owned(), line: 0, what }]
}

fn table(readme: &str) -> Table<'_> {
    let section = readme.split_once(HEADING).map_or("", |parts| parts.1);
    let mut lines = section.lines().skip_while(|line| !line.starts_with("| |"));
    let stores = lines.next().map(cells).unwrap_or_default().into_iter().skip(1).collect();
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    let rows = rows.map(|line| {
        let cells = cells(line);
        let number = |cell: &&str| cell.replace(',', "").parse().ok();
        (cells.first().copied().unwrap_or_default(), cells.iter().skip(1).map(number).collect())
    });
    Table { stores, rows: rows.collect() }
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

fn drawn(table: &Table<'_>) -> String {
    let row_height = BAR * u64::try_from(table.stores.len()).unwrap_or(0) + GAP;
    let height = LEGEND + row_height * u64::try_from(table.rows.len()).unwrap_or(0);
    let mut plot = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n<title>Operations a second, longer is faster</title>\n"
    );
    let mut x = BARS_AT;
    for (store, color) in table.stores.iter().zip(COLORS) {
        let _ = writeln!(
            plot,
            "<rect x=\"{x}\" y=\"6\" width=\"10\" height=\"10\" fill=\"{color}\"/><text x=\"{}\" y=\"15\" fill=\"{GRAY}\">{store}</text>",
            x + 14
        );
        x += 90;
    }
    for (row, (label, numbers)) in (0..).zip(&table.rows) {
        let top = LEGEND + row * row_height;
        let best = numbers.iter().flatten().max().copied().unwrap_or(1).max(1);
        let middle = top + row_height / 2;
        let end = BARS_AT - 8;
        let label = label.replace('`', "");
        let _ = writeln!(
            plot,
            "<text x=\"{end}\" y=\"{middle}\" text-anchor=\"end\" fill=\"{GRAY}\">{label}</text>"
        );
        for (bar, (number, color)) in (0..).zip(numbers.iter().zip(COLORS)) {
            let Some(number) = number else { continue };
            let y = top + bar * BAR;
            let length = (number * BAR_MAX / best).max(1);
            let _ = writeln!(
                plot,
                "<rect x=\"{BARS_AT}\" y=\"{y}\" width=\"{length}\" height=\"{}\" fill=\"{color}\"/>\
                 <text x=\"{}\" y=\"{}\" font-size=\"9\" fill=\"{GRAY}\">{}</text>",
                BAR - 1,
                BARS_AT + length + 4,
                y + BAR - 1,
                short(*number)
            );
        }
    }
    plot.push_str("</svg>\n");
    plot
}

/// `198k`, or `1.4M`.
fn short(number: u64) -> String {
    if number >= 1_000_000 {
        format!("{}.{}M", number / 1_000_000, number / 100_000 % 10)
    } else {
        format!("{}k", number / 1000)
    }
}

#[test]
fn a_table_is_read_and_drawn() {
    let text = "x\n## Performance\n\nOf\n\n| | A | B |\n|---|---:|---:|\n| find by `_id` | 2,000 | 1,500,000 |\n| scan | – | 5,000 |\n\nend\n";
    let table = table(text);
    assert_eq!(table.stores, ["A", "B"]);
    assert_eq!(
        table.rows,
        [("find by `_id`", vec![Some(2000), Some(1_500_000)]), ("scan", vec![None, Some(5000)])]
    );
    let plot = drawn(&table);
    assert!(
        plot.contains("find by _id") && plot.contains("1.5M") && plot.contains("width=\"380\""),
        "{plot}"
    );
    assert_eq!(plot.matches("<rect").count(), 5, "{plot}");
}

/// How much lighter one color is than another, as the guidelines for pages on the web compute it.
#[cfg(test)]
fn contrast(one: &str, other: &str) -> f64 {
    let light = |color: &str| {
        let part = |at: usize| {
            let part =
                color.get(at..at + 2).and_then(|part| u8::from_str_radix(part, 16).ok()).expect("a color");
            let part = f64::from(part) / 255.0;
            if part <= 0.039_28 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) + 0.05
    };
    let (one, other) = (light(one), light(other));
    one.max(other) / one.min(other)
}

#[test]
fn colors_can_be_seen_on_white_and_on_dark_pages() {
    for page in ["#ffffff", "#0d1117"] {
        assert!(contrast(GRAY, page) > 4.0, "words on {page}: {}", contrast(GRAY, page));
        for color in COLORS {
            assert!(contrast(color, page) > 3.5, "{color} on {page}: {}", contrast(color, page));
        }
    }
}
