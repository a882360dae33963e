//! A table for people: columns aligned by display width, two spaces apart, no lines drawn, no space at line ends.

use crate::text::width;

/// How a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of cells; the first one is the head.
#[derive(Debug)]
pub struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new<const N: usize>(head: [(&str, Align); N]) -> Self {
        let aligns = head.iter().map(|(_, align)| *align).collect();
        Self { aligns, rows: vec![head.iter().map(|(name, _)| (*name).to_owned()).collect()] }
    }

    /// Adds a row; its cells are inert already.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// The lines of the table, head first.
    pub fn lines(&self) -> Vec<String> {
        let columns = self.aligns.len();
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0)
            })
            .collect();
        self.rows.iter().map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, align), columns) in row.iter().zip(&self.aligns).zip(widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let pad = " ".repeat(columns.saturating_sub(width(cell)));
            match align {
                Align::Left => line.extend([cell, pad.as_str()]),
                Align::Right => line.extend([pad.as_str(), cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}
