//! Counts seconds into buckets.

use super::exposition::{Exposition, Kind};

/// Seconds, each counted in the first bucket that reaches it.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    limits: &'static [f64],
    /// One a limit, and one for what is beyond all of them.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    pub(super) fn new(limits: &'static [f64]) -> Self {
        Histogram { limits, counts: vec![0; limits.len() + 1], sum: 0.0 }
    }

    pub(super) fn observe(&mut self, seconds: f64) {
        self.counts[self.limits.partition_point(|limit| *limit < seconds)] += 1;
        self.sum += seconds;
    }

    pub(super) fn write(&self, page: &mut Exposition, name: &str, help: &str, model: &str) {
        page.family(name, Kind::Histogram, help);
        let bucket = format!("{name}_bucket");
        let limits = self.limits.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (limit, own) in limits.zip(&self.counts) {
            count += own;
            page.sample(&bucket, &[("model_name", model), ("le", &limit)], count);
        }
        page.sample(&format!("{name}_sum"), &[("model_name", model)], self.sum);
        page.sample(&format!("{name}_count"), &[("model_name", model)], count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_include_their_limit() {
        let mut histogram = Histogram::new(&[0.1, 1.0]);
        [0.1, 0.5, 3.0].into_iter().for_each(|seconds| histogram.observe(seconds));
        let mut page = Exposition::default();
        histogram.write(&mut page, "t", "T.", "m");
        let text = page.finish();
        for line in ["le=\"0.1\"} 1\n", "le=\"1\"} 2\n", "le=\"+Inf\"} 3\n", "t_count{model_name=\"m\"} 3\n"]
        {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
