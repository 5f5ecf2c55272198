//! Quantities, as resources are counted: [`Quantity`], parsed and written in the one form that a server stores.

use std::cmp::Ordering;

/// What the server says about a text that is not a quantity.
pub(crate) const FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Quantities are kept in billionths.
const NANO: i128 = 1_000_000_000;
/// Larger numbers are cut to this one.
const MOST: i128 = i64::MAX as i128 * NANO;

const DECIMAL: [(&str, u32); 10] = [
    ("n", 0),
    ("u", 3),
    ("m", 6),
    ("", 9),
    ("k", 12),
    ("M", 15),
    ("G", 18),
    ("T", 21),
    ("P", 24),
    ("E", 27),
];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Decimal,
    Exponent,
    Binary,
}

/// An amount with the family of suffixes that it was written in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    nanos: i128,
    form: Form,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Quantity {
    /// Reads a quantity; `None` where the text is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = whole.len() + fraction.len();
        if digits == 0 || fraction.contains('.') {
            return None;
        }
        let (form, factor) = factor(suffix)?;
        let mut nanos = scaled(whole, fraction, factor);
        if negative {
            nanos = -nanos;
        }
        let form = if form == Form::Binary && nanos > 0 && nanos < NANO {
            Form::Decimal
        } else {
            form
        };
        Some(Self { nanos, form })
    }

    /// A whole number without a suffix.
    pub(crate) fn of(number: i64) -> Self {
        Self {
            nanos: i128::from(number) * NANO,
            form: Form::Decimal,
        }
    }

    pub(crate) fn sign(self) -> i64 {
        i64::try_from(self.nanos.signum()).unwrap_or_default()
    }

    /// The number, where it is whole.
    pub(crate) fn integer(self) -> Option<i64> {
        (self.nanos % NANO == 0)
            .then(|| i64::try_from(self.nanos / NANO).ok())
            .flatten()
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "an approximation is what is asked for"
    )]
    pub(crate) fn approximate(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            nanos: (self.nanos + other.nanos).clamp(-MOST, MOST),
            ..self
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            nanos: (self.nanos - other.nanos).clamp(-MOST, MOST),
            ..self
        }
    }

    /// The form that a server stores: no fraction, the largest suffix that fits.
    pub(crate) fn canonical(self) -> String {
        let whole = self.nanos % NANO == 0;
        if self.form == Form::Binary && whole && self.nanos.abs() >= 1024 * NANO {
            let mut number = self.nanos / NANO;
            let mut suffix = "";
            for next in BINARY {
                if number % 1024 != 0 {
                    break;
                }
                number /= 1024;
                suffix = next;
            }
            return format!("{number}{suffix}");
        }
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let mut number = self.nanos;
        let mut power = 0;
        while number % 1000 == 0 && power < 27 {
            number /= 1000;
            power += 3;
        }
        if self.form == Form::Exponent {
            return match power {
                9 => number.to_string(),
                _ => format!("{number}e{}", i64::from(power) - 9),
            };
        }
        let suffix = DECIMAL.iter().find(|(_, exponent)| *exponent == power);
        format!("{number}{}", suffix.map_or("", |(suffix, _)| suffix))
    }
}

/// How many billionths one unit of a suffix has, as a numerator; suffixes below a billionth do not exist.
#[derive(Clone, Copy)]
enum Factor {
    /// Ten to this power, in billionths.
    Ten(i64),
    /// 1024 to this power, in ones.
    Binary(u32),
}

fn factor(suffix: &str) -> Option<(Form, Factor)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Form::Decimal, Factor::Ten(i64::from(*exponent))));
    }
    if let Some(at) = BINARY.iter().position(|name| *name == suffix) {
        return Some((Form::Binary, Factor::Binary(u32::try_from(at).ok()? + 1)));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i64 = exponent.parse().ok()?;
    Some((Form::Exponent, Factor::Ten(exponent.clamp(-100, 100) + 9)))
}

/// Billionths, rounded away from zero and cut to [`MOST`].
fn scaled(whole: &str, fraction: &str, factor: Factor) -> i128 {
    // 40 digits are more than an amount of billionths can have.
    let fraction = &fraction[..fraction.len().min(20)];
    let Ok(mantissa) = format!("0{whole}{fraction}").parse::<i128>() else {
        return MOST;
    };
    let places = i64::try_from(fraction.len()).unwrap_or_default();
    let (multiplier, exponent) = match factor {
        Factor::Ten(exponent) => (1, exponent - places),
        Factor::Binary(power) => (1024_i128.pow(power), 9 - places),
    };
    let Some(product) = mantissa.checked_mul(multiplier) else {
        return MOST;
    };
    let power = |exponent: i64| {
        u32::try_from(exponent)
            .ok()
            .and_then(|exponent| 10_i128.checked_pow(exponent))
    };
    if exponent < 0 {
        let Some(divisor) = power(-exponent) else {
            return i128::from(product != 0);
        };
        return (product / divisor + i128::from(product % divisor != 0)).min(MOST);
    }
    if product == 0 {
        return 0;
    }
    power(exponent)
        .and_then(|factor| product.checked_mul(factor))
        .map_or(MOST, |nanos| nanos.min(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_has_one_form() {
        for (written, stored) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Ki", "1536"),
            ("1000Ki", "1000Ki"),
            ("1048576Ki", "1Gi"),
            ("1e3", "1e3"),
            ("12000", "12k"),
            ("+2500m", "2500m"),
            ("-1", "-1"),
            ("0.0", "0"),
            ("0Gi", "0"),
            ("0.1n", "1n"),
            ("512", "512"),
            ("100Ki", "100Ki"),
            ("0.5Mi", "512Ki"),
            ("99999999999999999999", "9223372036854775807"),
        ] {
            let quantity = Quantity::parse(written).unwrap();
            assert_eq!(quantity.canonical(), stored, "{written}");
        }
        for wrong in ["", "abc", "1Q", "1.2.3", "e3", "1 Gi", "-", "."] {
            assert!(Quantity::parse(wrong).is_none(), "{wrong}");
        }
        assert!(Quantity::parse("1Gi") > Quantity::parse("1G"));
    }
}
