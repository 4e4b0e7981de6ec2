//! `$hash` and `$hexHash`: the MD5, SHA-256 or XXH64 of a text or of binary data.

use bson::RawBsonRef;
use bson::spec::BinarySubtype;
use md5::{Digest, Md5};
use sha2::Sha256;
use twox_hash::XxHash64;

use crate::code::Code;
use crate::expression::binary::{self, upper_hex};
use crate::expression::error::Error;
use crate::expression::node::Arguments;
use crate::expression::signature::Signature;
use crate::expression::value::Value;

/// The arguments of both.
pub(super) const HASH: Signature = Signature {
    names: &["input", "algorithm"],
    required: 2,
    not_object: Code::FAILED_TO_PARSE,
    unknown: Code::FAILED_TO_PARSE,
    missing: &[Code::FAILED_TO_PARSE],
};

/// `$hash`: the hash as binary data.
pub(super) fn hash<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    Ok(digest(arguments)?.map_or(Value::NULL, |hash| binary::value(BinarySubtype::Generic, hash)))
}

/// `$hexHash`: the hash as hexadecimal digits.
pub(super) fn hex_hash<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    Ok(digest(arguments)?.map_or(Value::NULL, |hash| Value::text(upper_hex(&hash))))
}

/// The hash of the input. Returns `None` for null.
fn digest(arguments: &Arguments<'_, '_>) -> Result<Option<Vec<u8>>, Error> {
    let input = arguments.value(0)?;
    if input.is_nullish() {
        return Ok(None);
    }
    let value = input.or_null();
    let bytes = value.as_binary().map(|binary| binary.bytes).or_else(|| value.as_str().map(str::as_bytes));
    let bytes = bytes.ok_or_else(|| {
        arguments.wrong_type(Code::HASH_INPUT_TYPE, "input", "a string or binary data", &input)
    })?;
    let algorithm = arguments.value(1)?;
    let name = algorithm.get().and_then(RawBsonRef::as_str);
    let name = name.ok_or_else(|| {
        arguments.wrong_type(Code::HASH_ALGORITHM_TYPE, "algorithm", "a string", &algorithm)
    })?;
    Ok(Some(match name {
        "md5" => Md5::digest(bytes).to_vec(),
        "sha256" => Sha256::digest(bytes).to_vec(),
        // The high byte first: the form in which the hash is written for people.
        "xxh64" => XxHash64::oneshot(0, bytes).to_be_bytes().to_vec(),
        _ => {
            let expected = "'md5', 'sha256' or 'xxh64'";
            return Err(arguments.wrong_value(Code::HASH_ALGORITHM_VALUE, "algorithm", expected, &algorithm));
        }
    }))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{binary, check, check_error};

    /// The hashes that MongoDB's own tests state.
    #[test]
    fn hashes_are_those_of_mongodb() {
        for (input, algorithm, hash) in [
            (bson!("Hello World"), "xxh64", "6334D207 19245BC2"),
            (bson!("🧐🤓😎"), "xxh64", "B56594E0 1983F99E"),
            (bson!(""), "xxh64", "EF46DB37 51D8E999"),
            (binary(b"hey"), "xxh64", "5AFE4CF2 315E12FE"),
            (bson!(""), "md5", "D41D8CD98F00B204E9800998ECF8427E"),
            (binary(b"hey"), "md5", "6057F13C496ECF7FD777CEB9E79AE285"),
            (bson!(""), "sha256", "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"),
            (binary(b"hey"), "sha256", "FA690B82061EDFD2852629AEBA8A8977B57E40FCB77D1A7A28B26CBA62591204"),
        ] {
            let hash = hash.replace(' ', "");
            let of = bson!({ "input": input, "algorithm": algorithm });
            let bytes: Vec<u8> = (0..hash.len() / 2)
                .map(|at| u8::from_str_radix(&hash[at * 2..at * 2 + 2], 16).unwrap())
                .collect();
            check(bson!({ "$hash": of.clone() }), binary(&bytes));
            check(bson!({ "$hexHash": of }), bson!(hash));
        }
    }

    #[test]
    fn null_has_no_hash() {
        for operator in ["$hash", "$hexHash"] {
            check(bson!({ operator: { "input": "$missing", "algorithm": 5 } }), Bson::Null);
            check(bson!({ operator: { "input": null, "algorithm": "none" } }), Bson::Null);
        }
    }

    #[test]
    fn the_form_of_hash_is_checked() {
        for operator in ["$hash", "$hexHash"] {
            check_error(bson!({ operator: { "input": [1], "algorithm": "md5" } }), 10_754_000);
            check_error(bson!({ operator: { "input": "a", "algorithm": null } }), 10_754_001);
            check_error(bson!({ operator: { "input": "a", "algorithm": [5] } }), 10_754_001);
            check_error(bson!({ operator: { "input": "a", "algorithm": "MD5" } }), 10_754_002);
            check_error(bson!({ operator: { "input": "a" } }), 9);
            check_error(bson!({ operator: { "algorithm": "md5" } }), 9);
            check_error(bson!({ operator: { "input": "a", "algorithm": "md5", "x": 1 } }), 9);
            check_error(bson!({ operator: "a" }), 9);
        }
    }
}
