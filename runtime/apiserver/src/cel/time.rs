//! Functions of times and durations.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::Failure;
use super::value::Val;

/// `None` where the function is none of these.
pub(super) fn call<'a>(name: &str, all: &[Val<'a>]) -> Option<Result<Val<'a>, Failure>> {
    Some(match all {
        [Val::Duration(duration)] => Ok(Val::Int(part(name, *duration)?)),
        [Val::Time(time)] => Ok(Val::Int(field(name, *time, &TimeZone::UTC)?)),
        [Val::Time(time), Val::Text(zone)] => {
            let fixed = format!("{zone}");
            match TimeZone::get(&fixed) {
                Ok(zone) => Ok(Val::Int(field(name, *time, &zone)?)),
                Err(_) => Err(Failure::new(format!("unknown time zone {zone}"))),
            }
        }
        _ => return None,
    })
}

/// The whole of a duration in a unit; milliseconds are those of the last second.
fn part(name: &str, duration: SignedDuration) -> Option<i64> {
    Some(match name {
        "getHours" => duration.as_hours(),
        "getMinutes" => duration.as_mins(),
        "getSeconds" => duration.as_secs(),
        "getMilliseconds" => i64::from(duration.subsec_millis()),
        _ => return None,
    })
}

fn field(name: &str, time: Timestamp, zone: &TimeZone) -> Option<i64> {
    let time = time.to_zoned(zone.clone());
    Some(match name {
        "getFullYear" => time.year().into(),
        "getMonth" => i64::from(time.month()) - 1,
        "getDate" => time.day().into(),
        "getDayOfMonth" => i64::from(time.day()) - 1,
        "getDayOfYear" => i64::from(time.day_of_year()) - 1,
        "getDayOfWeek" => time.weekday().to_sunday_zero_offset().into(),
        "getHours" => time.hour().into(),
        "getMinutes" => time.minute().into(),
        "getSeconds" => time.second().into(),
        "getMilliseconds" => time.millisecond().into(),
        _ => return None,
    })
}

/// `5400s`.
pub(super) fn seconds(duration: SignedDuration) -> String {
    let (whole, nanos) = (duration.as_secs(), duration.subsec_nanos().unsigned_abs());
    if nanos == 0 {
        return format!("{whole}s");
    }
    let sign = if duration.is_negative() && whole == 0 {
        "-"
    } else {
        ""
    };
    let fraction = format!("{nanos:09}");
    format!("{sign}{whole}.{}s", fraction.trim_end_matches('0'))
}
