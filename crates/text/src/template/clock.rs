//! The date and time that a template may print.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::{Error, ErrorKind};

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const SECONDS_PER_DAY: u64 = 86_400;

/// A second in universal time: the standard library knows no time zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    year: u64,
    month: usize,
    day: u64,
    weekday: usize,
    second_of_day: u64,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Moment { year, month, day, second_of_day, .. } = self;
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl Moment {
    /// The current second of the system's clock.
    pub fn now() -> Moment {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        Moment::from_unix_seconds(since_epoch.map_or(0, |duration| duration.as_secs()))
    }

    /// The moment this many seconds after 1970 began.
    pub fn from_unix_seconds(seconds: u64) -> Moment {
        let days = seconds / SECONDS_PER_DAY;
        let (year, month, day) = date(days);
        // 1970 began on a Thursday.
        let weekday = ((days + 4) % 7) as usize;
        Moment { year, month, day, weekday, second_of_day: seconds % SECONDS_PER_DAY }
    }

    /// Formats as Python's `strftime`; a directive that is not known is an error that names it.
    pub(super) fn format(&self, format: &str) -> Result<String, Error> {
        let mut text = String::new();
        let mut characters = format.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                text.push(character);
                continue;
            }
            let (is_padded, directive) = match characters.next() {
                Some('-') => (false, characters.next()),
                directive => (true, directive),
            };
            match directive.and_then(|directive| self.part(directive)) {
                Some(part) if is_padded => text.push_str(&part),
                Some(part) => text.push_str(unpadded(&part)),
                None => return Err(unknown_directive(directive)),
            }
        }
        Ok(text)
    }

    fn part(&self, directive: char) -> Option<String> {
        let (hour, minute, second) =
            (self.second_of_day / 3600, self.second_of_day / 60 % 60, self.second_of_day % 60);
        let (month_name, weekday_name) = (MONTHS[self.month - 1], WEEKDAYS[self.weekday]);
        Some(match directive {
            'Y' => format!("{:04}", self.year),
            'y' => format!("{:02}", self.year % 100),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'B' => month_name.to_owned(),
            'b' | 'h' => month_name[..3].to_owned(),
            'A' => weekday_name.to_owned(),
            'a' => weekday_name[..3].to_owned(),
            'H' => format!("{hour:02}"),
            'I' => format!("{:02}", (hour + 11) % 12 + 1),
            'M' => format!("{minute:02}"),
            'S' => format!("{second:02}"),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'F' => format!("{:04}-{:02}-{:02}", self.year, self.month, self.day),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'Z' => "UTC".to_owned(),
            'z' => "+0000".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

/// Year, month from 1, and day from 1 of the given day after 1970 began.
fn date(mut days: u64) -> (u64, usize, u64) {
    let mut year = 1970;
    while days >= days_in_year(year) {
        days -= days_in_year(year);
        year += 1;
    }
    let mut month = 1;
    while days >= days_in_month(year, month) {
        days -= days_in_month(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

fn days_in_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in_month(year: u64, month: usize) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn unpadded(part: &str) -> &str {
    let trimmed = part.trim_start_matches(['0', ' ']);
    if trimmed.is_empty() { "0" } else { trimmed }
}

fn unknown_directive(directive: Option<char>) -> Error {
    let found = directive.map_or("% at the end".to_owned(), |directive| format!("%{directive}"));
    let message = format!(
        "strftime_now knows %Y %y %m %d %e %B %b %A %a %H %I %M %S %p %F %T %Z %z and %%, not {found}"
    );
    Error::new(ErrorKind::InvalidOperation, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seconds: u64, format: &str, expected: &str) {
        assert_eq!(Moment::from_unix_seconds(seconds).format(format).unwrap(), expected);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        check(0, "%A %d %B %Y, %H:%M:%S", "Thursday 01 January 1970, 00:00:00");
        check(951_782_400, "%F %a", "2000-02-29 Tue");
        check(1_777_852_800, "%Y-%m-%d", "2026-05-04");
        check(4_107_542_399, "%d %b %Y %T", "28 Feb 2100 23:59:59");
        check(4_107_542_400, "%F", "2100-03-01");
        assert_eq!(Moment::from_unix_seconds(951_782_461).to_string(), "2000-02-29T00:01:01Z");
    }

    #[test]
    fn hours_days_and_padding() {
        check(0, "%I %p %-I %-d %e %-H %%", "12 AM 12 1  1 0 %");
        check(46_800, "%I:%M %p", "01:00 PM");
    }

    #[test]
    fn an_unknown_directive_is_named() {
        let moment = Moment::from_unix_seconds(0);
        assert!(moment.format("%Q").unwrap_err().to_string().contains("not %Q"));
        assert!(moment.format("100%").unwrap_err().to_string().contains("% at the end"));
    }
}
