//! The similarity of two vectors: `$similarityCosine`, `$similarityDotProduct` and `$similarityEuclidean`.
//!
//! A vector is an array of numbers or booleans, or binary data of the subtype for vectors, which is read in place: its bits
//! would need 64 times its memory as doubles.

use bson::RawBsonRef;
use bson::spec::BinarySubtype;

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Arguments, Evaluate, Node};
use crate::expression::parser::Parser;
use crate::expression::signature::Signature;
use crate::expression::value::{Value, type_name};
use crate::numeric::Numeric;

const SIMILARITY: Signature = Signature {
    names: &["vectors", "score"],
    required: 0,
    not_object: Code::SIMILARITY_OPERAND,
    unknown: Code::SIMILARITY_UNKNOWN_ARGUMENT,
    missing: &[],
};

/// Parses one of the three: two vectors, or `{vectors, score}`.
pub(super) fn parse(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let fault = |fault, code| Error::Argument { operator, fault, code };
    let [vectors, score] = if operand.as_array().is_some() {
        [Some(operand), None]
    } else {
        SIMILARITY.read::<2>(operator, operand)?
    };
    // Both are read before the vectors are parsed: an expression cannot compute the array itself.
    let vectors = vectors.unwrap_or(RawBsonRef::Null);
    if vectors.as_array().is_none() {
        let found = type_name(vectors);
        let wrong = Fault::WrongType { argument: "vectors", expected: "an array of expressions", found };
        return Err(fault(wrong, Code::SIMILARITY_VECTORS_TYPE));
    }
    let is_score = match score {
        None => false,
        Some(score) => score.as_bool().ok_or_else(|| {
            let found = type_name(score);
            let wrong = Fault::WrongType { argument: "score", expected: "a boolean", found };
            fault(wrong, Code::SIMILARITY_SCORE_TYPE)
        })?,
    };
    // Each vector is an expression, which may be an array of expressions.
    let nodes = parser.list(vectors)?;
    if nodes.len() != 2 {
        let (expected, found) = ("exactly 2".to_owned(), nodes.len());
        let code = Code::SIMILARITY_VECTORS_COUNT;
        return Err(Error::ArgumentCount { operator, expected, found, code });
    }
    let mut arguments: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    arguments.push(Some(Node::Constant(Value::boolean(is_score))));
    let evaluate: Evaluate = match operator {
        "$similarityCosine" => cosine,
        "$similarityDotProduct" => dot_product,
        _ => euclidean,
    };
    Ok(Node::Call { operator, evaluate, arguments })
}

fn dot_product<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    similarity(arguments, |sums| sums.products, |product| f64::midpoint(1.0, product))
}

fn euclidean<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    similarity(arguments, |sums| sums.distances.sqrt(), |distance| 1.0 / (1.0 + distance))
}

fn cosine<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let of_sums = |sums: Sums| {
        let lengths = sums.first.sqrt() * sums.second.sqrt();
        // A vector without a length has no direction; MongoDB says that nothing is near to it.
        if lengths == 0.0 { 0.0 } else { sums.products / lengths }
    };
    similarity(arguments, of_sums, |cosine| f64::midpoint(1.0, cosine))
}

/// The sums from which the three are computed.
#[derive(Clone, Copy, Default)]
struct Sums {
    products: f64,
    /// The squares of the distances.
    distances: f64,
    /// The squares of the first vector.
    first: f64,
    second: f64,
}

/// The similarity of both vectors, made a score by `score` if that is wanted.
fn similarity<'d>(
    arguments: &Arguments<'_, 'd>,
    of_sums: impl FnOnce(Sums) -> f64,
    score: impl FnOnce(f64) -> f64,
) -> Result<Value<'d>, Error> {
    let (first, second) = (arguments.value(0)?, arguments.value(1)?);
    if first.is_nullish() || second.is_nullish() {
        return Ok(Value::NULL);
    }
    let pair = [Vector::of(arguments, &first)?, Vector::of(arguments, &second)?];
    check(arguments, &pair)?;
    let [left, right] = pair;
    // One pass has the sums of all three, which differ only in what is made of them.
    let mut sums = Sums::default();
    for place in 0..left.len() {
        arguments.operation().step()?;
        let (left, right) = (left.get(place), right.get(place));
        sums.products += left * right;
        sums.distances += (left - right) * (left - right);
        sums.first += left * left;
        sums.second += right * right;
    }
    let found = of_sums(sums);
    let is_score = arguments.value(2)?.is_true();
    Ok(Value::double(if is_score { score(found) } else { found }))
}

/// Rejects vectors of different lengths, and elements that are not numbers.
fn check(arguments: &Arguments<'_, '_>, pair: &[Vector<'_>; 2]) -> Result<(), Error> {
    let [left, right] = pair;
    // The sizes first, as in MongoDB: elements are looked at only where each has a partner.
    if left.len() != right.len() {
        // MongoDB has numbers of their own for two vectors of one binary kind.
        let code = match (left, right) {
            (Vector::Array(_), _) | (_, Vector::Array(_)) => Code::SIMILARITY_SIZES,
            _ if std::mem::discriminant(left) == std::mem::discriminant(right) => {
                Code::SIMILARITY_BINARY_SIZES
            }
            _ => Code::SIMILARITY_SIZES,
        };
        let found = format!("{} and {} elements", left.len(), right.len());
        let fault = Fault::WrongValue { argument: "both vectors", expected: "of one size", found };
        return Err(arguments.fault(code, fault));
    }
    let codes = [Code::SIMILARITY_FIRST_ELEMENT, Code::SIMILARITY_SECOND_ELEMENT];
    for (vector, code) in pair.iter().zip(codes) {
        let Vector::Array(elements) = vector else { continue };
        if let Some(place) = elements.iter().position(Option::is_none) {
            let found = format!("something else at place {place}");
            let expected = "made of numbers and booleans";
            return Err(arguments.fault(code, Fault::WrongValue { argument: "a vector", expected, found }));
        }
    }
    Ok(())
}

/// A vector, as it is written.
enum Vector<'v> {
    /// `None` for an element that is neither a number nor a boolean.
    Array(Vec<Option<f64>>),
    /// Bytes with a sign.
    Int8(&'v [u8]),
    /// Floats of 32 bits, the low byte first.
    Float32(&'v [u8]),
    /// Bits, the high bit first, and how many of the last byte do not count.
    Bits { bytes: &'v [u8], ignored: usize },
}

impl<'v> Vector<'v> {
    fn of(arguments: &Arguments<'_, '_>, value: &'v Value<'_>) -> Result<Self, Error> {
        let vector = value.or_null();
        if let Some(array) = vector.as_array() {
            let operation = arguments.operation();
            // Held until the operator returns; a place in the list needs at most twice the bytes of an element.
            operation.reserve(2 * array.as_bytes().len())?;
            let element = |element: RawBsonRef<'_>| match element.as_bool() {
                Some(value) => Some(f64::from(u8::from(value))),
                None => Numeric::of(element).map(Numeric::to_double),
            };
            let elements: Vec<_> = crate::value::elements(array).map(element).collect();
            operation.steps(elements.len() as u64)?;
            return Ok(Self::Array(elements));
        }
        let wrong = |code| Err(arguments.wrong_type(code, "a vector", "an array or a binary vector", value));
        let RawBsonRef::Binary(binary) = vector else { return wrong(Code::SIMILARITY_VECTOR_TYPE) };
        if binary.subtype != BinarySubtype::Vector {
            return wrong(Code::SIMILARITY_BINARY_SUBTYPE);
        }
        Self::of_binary(arguments, binary.bytes)
    }

    /// A vector of binary data: what its elements are, how many bits do not count, and the elements.
    fn of_binary(arguments: &Arguments<'_, '_>, bytes: &'v [u8]) -> Result<Self, Error> {
        let wrong = |expected, found: u8, code| {
            let fault = Fault::WrongValue { argument: "a binary vector", expected, found: found.to_string() };
            Err(arguments.fault(code, fault))
        };
        // Bytes without a kind are a vector without elements.
        let [kind, padding, elements @ ..] = bytes else { return Ok(Self::Int8(&[])) };
        match *kind {
            0x03 if *padding == 0 => Ok(Self::Int8(elements)),
            0x27 if *padding == 0 && elements.len().is_multiple_of(4) => Ok(Self::Float32(elements)),
            0x27 if *padding == 0 => wrong("of whole floats", *kind, Code::BAD_VALUE),
            0x10 if *padding < 8 && (*padding == 0 || !elements.is_empty()) => {
                Ok(Self::Bits { bytes: elements, ignored: usize::from(*padding) })
            }
            0x03 | 0x10 | 0x27 => wrong("without such padding", *padding, Code::BAD_VALUE),
            _ => wrong("of int8, float32 or bits", *kind, Code::BAD_VALUE),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Array(elements) => elements.len(),
            Self::Int8(bytes) => bytes.len(),
            Self::Float32(bytes) => bytes.len() / 4,
            Self::Bits { bytes, ignored } => 8 * bytes.len() - ignored,
        }
    }

    /// An element of the vector, by a place that it has.
    fn get(&self, place: usize) -> f64 {
        let found = match self {
            Self::Array(elements) => elements.get(place).copied().flatten(),
            Self::Int8(bytes) => bytes.get(place).map(|byte| f64::from(byte.cast_signed())),
            Self::Float32(bytes) => {
                let float = bytes.get(4 * place..).and_then(|rest| rest.first_chunk::<4>());
                float.map(|float| f64::from(f32::from_le_bytes(*float)))
            }
            Self::Bits { bytes, .. } => {
                bytes.get(place / 8).map(|byte| f64::from(byte >> (7 - place % 8) & 1))
            }
        };
        // `check` has seen that every place is within the vector and every element a number.
        found.unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use bson::{Binary, Bson, bson};

    use super::*;
    use crate::expression::cases::{binary, check, check_error, decimal};

    fn vector(bytes: &[u8]) -> Bson {
        Bson::Binary(Binary { subtype: BinarySubtype::Vector, bytes: bytes.to_vec() })
    }

    #[test]
    fn vectors_are_compared() {
        check(bson!({ "$similarityDotProduct": [[1, 2, 3], [4, 5, 6]] }), bson!(32.0));
        check(bson!({ "$similarityDotProduct": [[1.0, 2.5, 3], [4, (decimal("5")), 6_i64]] }), bson!(34.5));
        check(bson!({ "$similarityEuclidean": [[0, 0], [3, 4]] }), bson!(5.0));
        check(bson!({ "$similarityCosine": [[1, 0], [0, 2]] }), bson!(0.0));
        check(bson!({ "$similarityCosine": [[3, 4], [6, 8]] }), bson!(1.0));
        check(bson!({ "$similarityCosine": [[true, false], [1, false]] }), bson!(1.0));
        check(bson!({ "$similarityCosine": [[0, 0], [1, 2]] }), bson!(0.0));
        check(bson!({ "$similarityCosine": [[], []] }), bson!(0.0));
        check(bson!({ "$similarityDotProduct": ["$missing", 1] }), Bson::Null);
        check(bson!({ "$similarityDotProduct": ["$list", "$list"] }), bson!(14.0));
    }

    #[test]
    fn scores_are_made_of_similarities() {
        let vectors = bson!([[1, 2, 3], [4, 5, 6]]);
        let score = |operator: &str, score: bool| {
            let mut call = bson::Document::new();
            call.insert(operator, bson!({ "vectors": (vectors.clone()), "score": score }));
            Bson::Document(call)
        };
        check(score("$similarityDotProduct", true), bson!(16.5));
        check(score("$similarityDotProduct", false), bson!(32.0));
        check(
            bson!({ "$similarityEuclidean": { "vectors": [[0, 0], [3, 4]], "score": true } }),
            bson!(1.0 / 6.0),
        );
        check(bson!({ "$similarityCosine": { "vectors": [[1, 0], [0, 1]], "score": true } }), bson!(0.5));
    }

    #[test]
    fn vectors_may_be_binary() {
        let int8 = vector(&[3, 0, 1, 254, 3]);
        let float32: Vec<u8> = [0x27, 0]
            .into_iter()
            .chain([1.0_f32, -2.0, 3.0].into_iter().flat_map(f32::to_le_bytes))
            .collect();
        let bits = vector(&[0x10, 5, 0b1010_0000]);
        check(bson!({ "$similarityDotProduct": [(int8.clone()), (vector(&float32))] }), bson!(14.0));
        check(bson!({ "$similarityDotProduct": [(int8.clone()), [1, 1, 1]] }), bson!(2.0));
        check(bson!({ "$similarityDotProduct": [(bits.clone()), (int8)] }), bson!(4.0));
        check(bson!({ "$similarityEuclidean": [(bits.clone()), (bits)] }), bson!(0.0));
        check(bson!({ "$similarityEuclidean": [(vector(&[])), (vector(&[3, 0]))] }), bson!(0.0));
    }

    #[test]
    fn wrong_vectors_are_refused() {
        let call = |first: Bson, second: Bson| bson!({ "$similarityCosine": [first, second] });
        for (first, second, code) in [
            (bson!(1), bson!([1]), 10_413_200),
            (bson!([1]), bson!("x"), 10_413_200),
            (bson!([1, 2]), bson!([1]), 10_413_202),
            (bson!(["x"]), bson!([1]), 10_413_203),
            (bson!([1]), bson!([null]), 10_413_204),
            (binary(&[3, 0, 1]), bson!([1]), 12_325_706),
            (vector(&[3, 0, 1]), vector(&[3, 0]), 12_325_705),
            (vector(&[3, 0, 1]), vector(&[3, 0, 1, 2]), 12_325_705),
            (vector(&[3, 0, 1]), bson!([1, 2]), 10_413_202),
            (vector(&[3, 0, 1]), vector(&[0x10, 0, 1]), 10_413_202),
            (vector(&[0x27, 0, 1]), bson!([1]), 2),
            (vector(&[3, 1, 1]), bson!([1]), 2),
            (vector(&[0x10, 8, 1]), bson!([1]), 2),
            (vector(&[0x10, 1]), bson!([1]), 2),
            (vector(&[9, 0, 1]), bson!([1]), 2),
        ] {
            check_error(call(first, second), code);
        }
    }

    #[test]
    fn arguments_are_checked() {
        check_error(bson!({ "$similarityCosine": 1 }), 10_413_208);
        check_error(bson!({ "$similarityCosine": { "vectors": 1 } }), 10_413_205);
        check_error(bson!({ "$similarityCosine": { "score": true } }), 10_413_205);
        check_error(bson!({ "$similarityCosine": { "vectors": [[1], [1]], "score": 1 } }), 10_413_206);
        check_error(bson!({ "$similarityCosine": { "vectors": [[1], [1]], "x": 1 } }), 10_413_207);
        check_error(bson!({ "$similarityCosine": [[1]] }), 10_413_209);
        check_error(bson!({ "$similarityCosine": [[1], [1], [1]] }), 10_413_209);
    }
}
