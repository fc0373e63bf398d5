//! What somebody may have meant who wrote a name that there is not.

/// How alike two names must be, from 0 to 1, for one to be suggested for the other.
const ALIKE: f64 = 0.75;

/// The name that is most like `written`, if any is alike. Case, `-` and `_` make no great difference.
pub(crate) fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['_', ' '], "-");
    let written = plain(written);
    let rated = names.into_iter().map(|name| (strsim::jaro_winkler(&written, &plain(name)), name));
    rated
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_something_else_finds_none() {
        let names = ["max-queue", "max-tokens", "parallel", "port"];
        for (written, expected) in [
            ("max_queue", Some("max-queue")),
            ("MaxQueue", Some("max-queue")),
            ("paralel", Some("parallel")),
            ("prot", Some("port")),
            ("zebra", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, names), expected, "{written:?}");
        }
    }
}
