//! Tables for people: columns of text and of numbers, as wide as what they have.

use unicode_width::UnicodeWidthStr;

/// The text of a cell without a value.
const NOTHING: &str = "-";

/// A table. Its first columns are texts, and the others numbers, which end below each other.
pub(crate) struct Grid {
    texts: usize,
    /// The first row is the head.
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table with these columns, of which `texts` are texts.
    pub(crate) fn new(texts: usize, head: &[&str]) -> Self {
        Self { texts, rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Adds the table to `out`, after an empty line if something is before it. Without rows nothing is added.
    pub(crate) fn write(&self, out: &mut String) {
        if self.rows.len() < 2 {
            return;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        let mut widths = Vec::new();
        for row in &self.rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(columns(cell));
            }
        }
        for row in &self.rows {
            let mut line = String::new();
            for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let gap = if at == 0 { "" } else { "  " };
                let margin = " ".repeat(width.saturating_sub(columns(cell)));
                let (before, after) = if at < self.texts { ("", &*margin) } else { (&*margin, "") };
                line.extend([gap, before, cell, after]);
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}

/// The number of a terminal's columns that a string needs: those of Chinese and Japanese and most emoji need two, and
/// accents none.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// A value, or what means none.
pub(crate) fn or_nothing<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::size;
    use crate::plain::plain;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut grid = Grid::new(1, &["name", "size"]);
        let mut out = String::new();
        grid.write(&mut out);
        assert_eq!(out, "");
        grid.row(vec![plain("ü\n"), size(2048)]);
        grid.row(vec![plain("long name"), or_nothing(None::<u64>)]);
        grid.write(&mut out);
        assert_eq!(out, "name         size\nü\\n        2.0 kB\nlong name       -\n");
        grid.write(&mut out);
        assert_eq!(out.lines().count(), 7);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut grid = Grid::new(1, &["name", "n"]);
        for name in ["注文", "🎉", "e\u{301}e", "plain"] {
            grid.row(vec![name.to_owned(), "1".to_owned()]);
        }
        let mut out = String::new();
        grid.write(&mut out);
        assert_eq!(out, "name   n\n注文   1\n🎉     1\ne\u{301}e     1\nplain  1\n");
    }
}
