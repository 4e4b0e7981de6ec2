//! The facts of a store, as tables.

use std::fmt::Write as _;

use cairndb::bson::Document;

use crate::command::count;
use crate::figures::{count as number_of, size};
use crate::grid::{Grid, or_nothing};
use crate::plain::plain;
use crate::stats::look::{Looked, kind};
use crate::store::FolderFacts;

/// All that was seen. It is one line if there is nothing.
pub(super) fn text(looked: &Looked) -> String {
    let mut out = String::new();
    collections(looked).write(&mut out);
    indexes(looked).write(&mut out);
    let mut sequences = Grid::new(2, &["sequence", "contract", "next", "left", "lost"]);
    for position in &looked.positions {
        sequences.row(vec![
            plain(&position.owner()),
            position.contract().to_owned(),
            or_nothing(position.next()),
            or_nothing(position.number("Remaining")),
            or_nothing(position.number("Lost")),
        ]);
    }
    sequences.write(&mut out);
    if out.is_empty() {
        out.push_str("no collections and no sequences\n");
    }
    if let Some(folder) = &looked.folder {
        files(folder, &mut out);
    }
    if let Some(scrub) = &looked.scrub {
        out.push_str(&scrub_line(scrub));
    }
    // Those of a server that is not a replica set are none.
    if let Some(transactions) = looked.transactions.as_ref().filter(|of| count(of, "totalStarted") > Some(0))
    {
        out.push_str(&transactions_line(transactions));
    }
    if let Some(log) = looked.change_log.as_ref().filter(|log| has_log(log)) {
        out.push_str(&change_log_line(log));
    }
    out
}

/// Whether anything is logged, or followed.
fn has_log(log: &Document) -> bool {
    ["bytes", "streams"].iter().any(|name| count(log, name) > Some(0))
}

fn change_log_line(log: &Document) -> String {
    let number = |name| count(log, name).unwrap_or(0);
    let (bytes, age) = (size(number("bytes")), number_of(number("oldestEventSeconds")));
    let (streams, lag) = (number_of(number("streams")), number_of(number("lagSeconds")));
    format!("\nchange log: {bytes}, oldest event {age} s ago, {streams} streams open, {lag} s behind\n")
}

fn transactions_line(transactions: &Document) -> String {
    let number = |name| number_of(count(transactions, name).unwrap_or(0));
    let (open, committed, aborted) =
        (number("currentOpen"), number("totalCommitted"), number("totalAborted"));
    format!("\ntransactions: open {open}, committed {committed}, aborted {aborted}\n")
}

fn scrub_line(scrub: &Document) -> String {
    let number = |name| count(scrub, name).unwrap_or(0);
    let (passes, read, findings) =
        (number_of(number("passes")), size(number("bytesRead")), number_of(number("findings")));
    let told = if findings == "0" { "" } else { ": the server's log and cairn verify say where" };
    format!("\nscrub: passes {passes}, read {read}, findings {findings}{told}\n")
}

fn collections(looked: &Looked) -> Grid {
    let mut grid = Grid::new(1, &["collection", "documents", "mean", "data", "on disk", "ratio"]);
    for facts in &looked.collections {
        let namespace = plain(&format!("{}.{}", facts.database, facts.listed.name));
        grid.row(match &facts.sizes {
            Some(sizes) => vec![
                namespace,
                number_of(sizes.documents),
                or_nothing(sizes.mean().map(size)),
                size(sizes.data),
                // The log belongs to no collection.
                if sizes.disk == 0 && sizes.data > 0 { "in the log".to_owned() } else { size(sizes.disk) },
                or_nothing(sizes.ratio().map(|ratio| format!("{ratio:.2}"))),
            ],
            None => vec![namespace, plain(&facts.listed.kind)],
        });
    }
    grid
}

fn indexes(looked: &Looked) -> Grid {
    let mut grid = Grid::new(2, &["index of", "name", "size", "uses"]);
    for facts in &looked.collections {
        for index in facts.sizes.iter().flat_map(|sizes| &sizes.indexes) {
            grid.row(vec![
                plain(&format!("{}.{}", facts.database, facts.listed.name)),
                plain(&index.name),
                size(index.bytes),
                or_nothing(index.uses.map(|(uses, _)| number_of(uses))),
            ]);
        }
    }
    grid
}

fn files(folder: &FolderFacts, out: &mut String) {
    let stats = &folder.stats;
    let mut grid = Grid::new(1, &["files", "number", "size", "on disk"]);
    for files in &stats.files {
        grid.row(vec![kind(files.kind), number_of(files.files), size(files.bytes), size(files.disk_bytes)]);
    }
    grid.write(out);
    let left = match (folder.holder, stats.was_closed_in_order) {
        (Some(holder), _) => format!("open in another process (pid {holder})"),
        (None, true) => "closed in order".to_owned(),
        (None, false) => "not closed in order, or open in another process".to_owned(),
    };
    // Writing to a string does not fail.
    let _ = writeln!(out, "\nformat {}, {left}", stats.format);
}
