//! The figures as one SVG picture: a panel for each level and figure, a bar for each store. Panels have
//! scales of their own, because a scan and a synced insert are four powers of ten apart.

use std::error::Error;
use std::path::Path;

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, Color, IntoFont, RGBColor, WHITE};

use crate::measure::{FIGURES, Figures, Level, STORES};

const SIZE: (u32, u32) = (2_240, 960);
const OURS: RGBColor = RGBColor(0x0b, 0x6e, 0x4f);
const THEIRS: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);

type Panel<'a, 'b> = &'a DrawingArea<SVGBackend<'b>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// Draws all panels into `path`.
pub(crate) fn draw(figures: &Figures, path: &Path) -> Drawn {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let panels = root.split_evenly((Level::ALL.len(), FIGURES.len()));
    let figures_of_levels = Level::ALL.into_iter().flat_map(|level| FIGURES.map(|figure| (level, figure)));
    for (panel, (level, figure)) in panels.iter().zip(figures_of_levels) {
        draw_panel(panel, figures, level, figure)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(panel: Panel<'_, '_>, figures: &Figures, level: Level, figure: &str) -> Drawn {
    let bars: Vec<(&str, f64)> =
        STORES.into_iter().filter_map(|store| Some((store, figures.median(level, store, figure)?))).collect();
    let highest = bars.iter().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let (width, height) = panel.dim_in_pixel();
    let (width, height) = (f64::from(width), f64::from(height));
    let title = format!("{figure}, {}", level.name());
    panel.draw(&Text::new(title, (12, 14), ("sans-serif", 16).into_font().color(&BLACK)))?;

    // Bars lie, so that the stores' names are read without tilting one's head.
    let row_height = (height - 50.0) / f64::from(u32::try_from(STORES.len())?);
    let mut top = 40.0;
    for (store, rate) in bars {
        let length = (width - 180.0) * rate / highest;
        let color = if store == "cairndb" { OURS } else { THEIRS };
        let corners = [pixel(96.0, top), pixel(96.0 + length, top + row_height * 0.7)];
        panel.draw(&Rectangle::new(corners, color.filled()))?;
        let middle = top + row_height * 0.35;
        label(panel, store, pixel(90.0, middle), HPos::Right)?;
        label(panel, &short(rate), pixel(100.0 + length, middle), HPos::Left)?;
        top += row_height;
    }
    Ok(())
}

fn label(panel: Panel<'_, '_>, text: &str, at: (i32, i32), side: HPos) -> Drawn {
    let style = ("sans-serif", 13).into_font().color(&BLACK).pos(Pos::new(side, VPos::Center));
    panel.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

#[expect(clippy::cast_possible_truncation, reason = "a place inside a picture of some hundred pixels")]
fn pixel(x: f64, y: f64) -> (i32, i32) {
    (x.round() as i32, y.round() as i32)
}

/// A rate in three digits: `950`, `12.3 k`, `1.23 M`.
fn short(rate: f64) -> String {
    if rate >= 1e6 {
        format!("{:.2} M", rate / 1e6)
    } else if rate >= 1e3 {
        format!("{:.1} k", rate / 1e3)
    } else {
        format!("{rate:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short() {
        assert_eq!([950.4, 12_340.0, 1_234_000.0].map(short), ["950", "12.3 k", "1.23 M"]);
    }

    #[test]
    fn the_picture_names_every_measured_store() {
        let mut figures = Figures::default();
        figures.add(Level::Synced, "redb", "scan", 1_500.0);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("compare.svg");
        draw(&figures, &path).unwrap();
        let picture = std::fs::read_to_string(path).unwrap();
        assert!(picture.contains("redb") && picture.contains("1.5 k"));
        assert!(!picture.contains("lmdb"));
    }
}
