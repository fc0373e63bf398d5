//! Context bands: rounds at like context lengths cost alike.

/// Contexts below this are one band: attention is a small part of their rounds.
const SHORT: usize = 4096;

/// Bands that are told apart; longer contexts count to the last.
pub(crate) const BANDS: usize = 10;

/// The band of a context length.
pub(crate) fn band(context: usize) -> usize {
    let doublings = (context.max(1) / SHORT).checked_ilog2().map_or(0, |log| log as usize + 1);
    doublings.min(BANDS - 1)
}

/// The shortest context of a band.
pub(crate) fn band_start(band: usize) -> usize {
    if band == 0 { 0 } else { SHORT << (band - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_double_from_4096_on() {
        let bands = [0, 1, 4095, 4096, 8191, 8192, 131_071, 131_072, usize::MAX].map(band);
        assert_eq!(bands, [0, 0, 0, 1, 1, 2, 5, 6, BANDS - 1]);
        assert!((0..BANDS).all(|each| band(band_start(each)) == each));
    }
}
