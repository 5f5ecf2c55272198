//! Numbers. Entry point: [`read`].

use super::{Fault, Reader};

/// A number in the smallest type that holds it.
pub(super) enum Number {
    Unsigned(u64),
    /// Below zero.
    Negative(i64),
    /// With a fraction or an exponent, or too large for an integer.
    Float(f64),
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Number, Fault> {
    let negative = reader.peek() == b'-';
    reader.at += usize::from(negative);
    let start = reader.at;
    let mut digits = Digits::default();
    digits.read(reader)?;
    if reader.at - start > 1 && reader.text.as_bytes().get(start) == Some(&b'0') {
        return Err(Fault::new("a number with a leading zero"));
    }
    let mut whole = digits.dropped == 0;
    if reader.here() == b'.' {
        whole = false;
        reader.at += 1;
        let read = digits.read(reader)?;
        digits.exponent -= read;
    }
    if matches!(reader.here(), b'e' | b'E') {
        whole = false;
        reader.at += 1;
        digits.exponent += exponent(reader)?;
    }
    Ok(match (whole, negative) {
        (true, false) => Number::Unsigned(digits.mantissa),
        (true, true) => match 0_i64.checked_sub_unsigned(digits.mantissa) {
            // Minus zero is no integer.
            Some(number) if number < 0 => Number::Negative(number),
            _ => Number::Float(-digits.float()?),
        },
        (false, negative) => {
            let float = digits.float()?;
            Number::Float(if negative { -float } else { float })
        }
    })
}

fn exponent(reader: &mut Reader<'_>) -> Result<i32, Fault> {
    let sign = reader.here();
    reader.at += usize::from(matches!(sign, b'+' | b'-'));
    let mut digits = Digits::default();
    digits.read(reader)?;
    // Beyond this every number is 0 or infinite.
    let exponent = i32::try_from(digits.mantissa).map_or(9999, |exponent| exponent.min(9999));
    Ok(if sign == b'-' { -exponent } else { exponent })
}

/// A number as digits: `mantissa` × 10 ^ (`exponent` + `dropped`).
#[derive(Default)]
struct Digits {
    mantissa: u64,
    exponent: i32,
    /// The number of digits that do not fit into `mantissa`.
    dropped: i32,
}

impl Digits {
    /// Reads at least one digit, and returns how many.
    fn read(&mut self, reader: &mut Reader<'_>) -> Result<i32, Fault> {
        let mut count = 0;
        while let digit @ b'0'..=b'9' = reader.here() {
            reader.at += 1;
            count += 1;
            let digit = u64::from(digit - b'0');
            let more = self.mantissa.checked_mul(10);
            match more.and_then(|more| more.checked_add(digit)) {
                Some(mantissa) if self.dropped == 0 => self.mantissa = mantissa,
                _ => self.dropped += 1,
            }
        }
        if count == 0 {
            return Err(Fault::new("expected a value"));
        }
        Ok(count)
    }

    /// The nearest float. For long or extreme numbers it may be wrong by a few units in the last place. Powers of ten up to
    /// the 22nd are exact, so everyday numbers are exact too.
    #[expect(
        clippy::cast_precision_loss,
        reason = "this is where precision is lost"
    )]
    fn float(&self) -> Result<f64, Fault> {
        let mut exponent = self
            .exponent
            .saturating_add(self.dropped)
            .clamp(-9999, 9999);
        let mut float = self.mantissa as f64;
        while exponent < -300 && float > 0.0 {
            float /= 1e300;
            exponent += 300;
        }
        let (mut left, mut scale, mut power) = (exponent.unsigned_abs(), 1.0, 10.0);
        while left > 0 {
            if left & 1 == 1 {
                scale *= power;
            }
            power *= power;
            left >>= 1;
        }
        if exponent < 0 {
            float /= scale;
        } else if float > 0.0 {
            float *= scale;
        }
        if float.is_finite() {
            Ok(float)
        } else {
            Err(Fault::new("a number out of range"))
        }
    }
}
