//! Writes numbers in Prometheus' text format.

use std::fmt::{Display, Write};

/// The page under construction.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

/// What a family's numbers do over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// They only grow.
    Counter,
    /// They go up and down.
    Gauge,
    /// They are buckets, a sum and a count.
    Histogram,
}

impl Exposition {
    /// Begins a family.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// A number of a family that has been begun.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let mut text = String::new();
        for (index, (label, value)) in labels.iter().enumerate() {
            text.push(if index == 0 { '{' } else { ',' });
            write!(text, "{label}=\"{}\"", escaped(value)).expect("a string takes everything");
        }
        if !labels.is_empty() {
            text.push('}');
        }
        self.line(format_args!("{name}{text} {value}"));
    }

    /// A family of one number.
    pub(super) fn single(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) {
        self.family(name, kind, help);
        self.sample(name, labels, value);
    }

    /// The page.
    pub(super) fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_two_comments_and_its_samples() {
        let mut page = Exposition::default();
        page.single("a_total", Kind::Counter, "As.", &[], 3);
        page.family("b", Kind::Gauge, "Bs.");
        page.sample("b", &[("x", "1"), ("y", "a \"b\" \\ \n")], 0.5);
        let expected = "# HELP a_total As.\n# TYPE a_total counter\na_total 3\n# HELP b Bs.\n# TYPE b gauge\n\
                        b{x=\"1\",y=\"a \\\"b\\\" \\\\ \\n\"} 0.5\n";
        assert_eq!(page.finish(), expected);
    }
}
