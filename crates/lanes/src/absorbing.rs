//! What the drafter takes to take up a row: by the cost table at first, then by rounds.

/// What one round moves the average.
const WEIGHT: f64 = 0.2;

/// Rows of a round that say something: fewer cost less than rounds differ by.
const ROWS_LEAST: usize = 32;

#[derive(Debug)]
pub(crate) struct Absorbing {
    row_ms: f64,
}

impl Absorbing {
    pub(crate) fn new(row_ms: f64) -> Self {
        Absorbing { row_ms }
    }

    /// Milliseconds of taking up `rows` rows.
    pub(crate) fn ms(&self, rows: usize) -> f64 {
        self.row_ms * rows as f64
    }

    /// Learns from a round that took up `rows` rows and took `beyond_ms` more than the rest of it takes by the table. A row is
    /// never dearer than `most_ms`: a machine that stood still for a moment took up nothing.
    pub(crate) fn note(&mut self, rows: usize, beyond_ms: f64, most_ms: f64) {
        if rows >= ROWS_LEAST {
            let found_ms = (beyond_ms / rows as f64).clamp(0.0, most_ms);
            self.row_ms += WEIGHT * (found_ms - self.row_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rows_price_follows_rounds_that_take_up_many() {
        let mut absorbing = Absorbing::new(0.0);
        absorbing.note(ROWS_LEAST - 1, 100.0, 1.0);
        assert_eq!(absorbing.ms(100), 0.0);
        (0..40).for_each(|_| absorbing.note(200, 4.0, 1.0));
        assert!((absorbing.ms(100) - 2.0).abs() < 0.01);
        absorbing.note(200, 1e6, 0.12);
        assert!((absorbing.ms(100) - 4.0).abs() < 0.01);
    }
}
