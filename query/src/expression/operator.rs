//! The names of all expression operators in one sorted table, and the forms of their arguments.
//!
//! A name that is not in the table is unknown. One that is there as [`OperatorSupport::Unsupported`] exists in MongoDB and not
//! in CairnDB. What an operator means is in the file of its family.

use bson::RawBsonRef;

use crate::code::Code;
use crate::expression::error::Error;
use crate::expression::node::{Evaluate, Node};
use crate::expression::parser::Parser;
use crate::expression::signature::Signature;
use crate::expression::{
    accumulate, arithmetic, array, bind, bits, condition, convert, date, extended_json, hash, identity, meta,
    object, order, percentile, power, regex, round, search, sequence, set, similarity, switch, text,
    trigonometry,
};
use crate::registry::Registry;

/// The support for a name.
#[derive(Clone, Copy)]
pub(super) enum OperatorSupport {
    Supported(Form),
    Unsupported,
}

/// The form of an operator's arguments.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// As an array, or as one argument without an array around it.
    List { count: Count, evaluate: Evaluate },
    /// As an object, by name.
    Named { names: &'static Signature, evaluate: Evaluate },
    /// In a form of its own.
    Special(ParseSpecial),
}

/// Parses the argument of an operator that has a form of its own.
pub(super) type ParseSpecial = fn(Parser<'_>, &'static str, RawBsonRef<'_>) -> Result<Node, Error>;

/// The number of arguments of an operator.
#[derive(Clone, Copy)]
pub(super) struct Count {
    min: usize,
    max: usize,
    /// MongoDB's number for another count.
    code: Code,
}

impl Count {
    pub(super) fn check(self, operator: &'static str, found: usize) -> Result<(), Error> {
        if (self.min..=self.max).contains(&found) {
            return Ok(());
        }
        let expected = if self.min == self.max {
            format!("exactly {}", self.min)
        } else if self.max == usize::MAX {
            format!("at least {}", self.min)
        } else {
            format!("from {} to {}", self.min, self.max)
        };
        Err(Error::ArgumentCount { operator, expected, found, code: self.code })
    }
}

/// The operator of a name, as it is written in the table, and what is known about it.
pub(super) fn known(name: &str) -> Option<(&'static str, OperatorSupport)> {
    OPERATORS.entry(name).copied()
}

const fn exactly(count: usize, evaluate: Evaluate) -> OperatorSupport {
    // Most operators of a fixed count share one number, and those of a range another.
    let count = Count { min: count, max: count, code: Code::ARGUMENT_COUNT };
    OperatorSupport::Supported(Form::List { count, evaluate })
}

/// A short form of `$convert`, which has a number of its own for another count.
const fn conversion(evaluate: Evaluate) -> OperatorSupport {
    let count = Count { min: 1, max: 1, code: Code::CONVERSION_COUNT };
    OperatorSupport::Supported(Form::List { count, evaluate })
}

const fn between(min: usize, max: usize, evaluate: Evaluate) -> OperatorSupport {
    OperatorSupport::Supported(Form::List {
        count: Count { min, max, code: Code::ARGUMENT_COUNT_RANGE },
        evaluate,
    })
}

const fn any_number(evaluate: Evaluate) -> OperatorSupport {
    at_least(0, Code::ARGUMENT_COUNT, evaluate)
}

const fn at_least(min: usize, code: Code, evaluate: Evaluate) -> OperatorSupport {
    OperatorSupport::Supported(Form::List { count: Count { min, max: usize::MAX, code }, evaluate })
}

const fn named(names: &'static Signature, evaluate: Evaluate) -> OperatorSupport {
    OperatorSupport::Supported(Form::Named { names, evaluate })
}

const fn special(parse: ParseSpecial) -> OperatorSupport {
    OperatorSupport::Supported(Form::Special(parse))
}

pub(super) const OPERATORS: Registry<OperatorSupport> = Registry::new(&[
    ("$abs", exactly(1, arithmetic::abs)),
    ("$accumulator", OperatorSupport::Unsupported),
    ("$acos", exactly(1, trigonometry::acos)),
    ("$acosh", exactly(1, trigonometry::acosh)),
    ("$add", any_number(arithmetic::add)),
    ("$allElementsTrue", exactly(1, set::all_elements_true)),
    ("$and", any_number(condition::and)),
    ("$anyElementTrue", exactly(1, set::any_element_true)),
    ("$arrayElemAt", exactly(2, array::element_at)),
    ("$arrayToObject", exactly(1, object::from_array)),
    ("$asin", exactly(1, trigonometry::asin)),
    ("$asinh", exactly(1, trigonometry::asinh)),
    ("$atan", exactly(1, trigonometry::atan)),
    ("$atan2", exactly(2, trigonometry::atan2)),
    ("$atanh", exactly(1, trigonometry::atanh)),
    ("$avg", any_number(accumulate::average)),
    ("$binarySize", exactly(1, text::binary_size)),
    ("$bitAnd", any_number(bits::and)),
    ("$bitNot", exactly(1, bits::not)),
    ("$bitOr", any_number(bits::or)),
    ("$bitXor", any_number(bits::xor)),
    ("$bottom", special(order::parse_best)),
    ("$bottomN", special(order::parse_best)),
    ("$bsonSize", exactly(1, object::bson_size)),
    ("$ceil", exactly(1, round::ceil)),
    ("$cmp", exactly(2, condition::compare_three_ways)),
    ("$concat", any_number(text::concat)),
    ("$concatArrays", any_number(array::concat)),
    ("$cond", special(condition::parse_cond)),
    ("$const", special(object::parse_literal)),
    ("$convert", named(&convert::CONVERT, convert::convert)),
    ("$cos", exactly(1, trigonometry::cos)),
    ("$cosh", exactly(1, trigonometry::cosh)),
    ("$covariancePop", OperatorSupport::Unsupported),
    ("$covarianceSamp", OperatorSupport::Unsupported),
    ("$createObjectId", special(identity::parse_object_id)),
    ("$currentDate", special(bind::parse_current_date)),
    ("$dateAdd", named(&date::ADD, date::add)),
    ("$dateDiff", named(&date::DIFF, date::difference)),
    ("$dateFromParts", special(date::parse_from_parts)),
    ("$dateFromString", named(&date::FROM_STRING, date::from_string)),
    ("$dateSubtract", named(&date::ADD, date::subtract)),
    ("$dateToParts", named(&date::TO_PARTS, date::to_parts)),
    ("$dateToString", named(&date::TO_STRING, date::to_string)),
    ("$dateTrunc", named(&date::TRUNC, date::truncate)),
    ("$dayOfMonth", special(date::parse_part)),
    ("$dayOfWeek", special(date::parse_part)),
    ("$dayOfYear", special(date::parse_part)),
    ("$degreesToRadians", exactly(1, trigonometry::degrees_to_radians)),
    ("$denseRank", OperatorSupport::Unsupported),
    ("$derivative", OperatorSupport::Unsupported),
    ("$deserializeEJSON", named(&extended_json::DESERIALIZE, extended_json::deserialize)),
    ("$divide", exactly(2, arithmetic::divide)),
    ("$documentNumber", OperatorSupport::Unsupported),
    ("$encStrContains", OperatorSupport::Unsupported),
    ("$encStrEndsWith", OperatorSupport::Unsupported),
    ("$encStrNormalizedEq", OperatorSupport::Unsupported),
    ("$encStrStartsWith", OperatorSupport::Unsupported),
    ("$eq", exactly(2, condition::equal)),
    ("$exp", exactly(1, power::exp)),
    ("$expMovingAvg", OperatorSupport::Unsupported),
    ("$filter", special(bind::parse_filter)),
    ("$first", exactly(1, array::first)),
    ("$firstN", named(&order::SOME, array::first_some)),
    ("$floor", exactly(1, round::floor)),
    ("$function", OperatorSupport::Unsupported),
    ("$getField", special(object::parse_get_field)),
    ("$gt", exactly(2, condition::greater)),
    ("$gte", exactly(2, condition::greater_or_equal)),
    ("$hash", named(&hash::HASH, hash::hash)),
    ("$hexHash", named(&hash::HASH, hash::hex_hash)),
    ("$hour", special(date::parse_part)),
    ("$ifNull", at_least(2, Code::IF_NULL_COUNT, condition::if_null)),
    ("$in", exactly(2, search::contains)),
    ("$indexOfArray", between(2, 4, search::index_of_array)),
    ("$indexOfBytes", between(2, 4, search::index_of_bytes)),
    ("$indexOfCP", between(2, 4, search::index_of_characters)),
    ("$integral", OperatorSupport::Unsupported),
    ("$isArray", exactly(1, array::is_array)),
    ("$isNumber", exactly(1, convert::is_number)),
    ("$isoDayOfWeek", special(date::parse_part)),
    ("$isoWeek", special(date::parse_part)),
    ("$isoWeekYear", special(date::parse_part)),
    ("$last", exactly(1, array::last)),
    ("$lastN", named(&order::SOME, array::last_some)),
    ("$let", special(bind::parse_let)),
    ("$linearFill", OperatorSupport::Unsupported),
    ("$literal", special(object::parse_literal)),
    ("$ln", exactly(1, power::ln)),
    ("$locf", OperatorSupport::Unsupported),
    ("$log", exactly(2, power::log)),
    ("$log10", exactly(1, power::log10)),
    ("$lt", exactly(2, condition::less)),
    ("$lte", exactly(2, condition::less_or_equal)),
    ("$ltrim", named(&text::TRIM, text::trim_start)),
    ("$map", special(bind::parse_map)),
    ("$max", any_number(accumulate::greatest)),
    ("$maxN", named(&order::SOME, order::greatest_some)),
    ("$median", special(percentile::parse_median)),
    ("$mergeObjects", any_number(object::merge)),
    ("$meta", special(meta::parse)),
    ("$millisecond", special(date::parse_part)),
    ("$min", any_number(accumulate::least)),
    ("$minMaxScaler", OperatorSupport::Unsupported),
    ("$minN", named(&order::SOME, order::least_some)),
    ("$minute", special(date::parse_part)),
    ("$mod", exactly(2, arithmetic::modulo)),
    ("$month", special(date::parse_part)),
    ("$multiply", any_number(arithmetic::multiply)),
    ("$ne", exactly(2, condition::unequal)),
    ("$not", exactly(1, condition::not)),
    ("$objectToArray", exactly(1, object::to_array)),
    ("$or", any_number(condition::or)),
    ("$percentile", special(percentile::parse_percentile)),
    ("$pow", exactly(2, power::pow)),
    ("$radiansToDegrees", exactly(1, trigonometry::radians_to_degrees)),
    ("$rand", special(bind::parse_random)),
    ("$range", between(2, 3, sequence::range)),
    ("$rank", OperatorSupport::Unsupported),
    ("$reduce", special(bind::parse_reduce)),
    ("$regexFind", special(regex::parse)),
    ("$regexFindAll", special(regex::parse)),
    ("$regexMatch", special(regex::parse)),
    ("$replaceAll", named(&text::REPLACE, text::replace_all)),
    ("$replaceOne", named(&text::REPLACE, text::replace_one)),
    ("$reverseArray", exactly(1, array::reverse)),
    ("$round", between(1, 2, round::round)),
    ("$rtrim", named(&text::TRIM, text::trim_end)),
    ("$second", special(date::parse_part)),
    ("$serializeEJSON", named(&extended_json::SERIALIZE, extended_json::serialize)),
    ("$setDifference", exactly(2, set::difference)),
    ("$setEquals", at_least(2, Code::SET_EQUALS_COUNT, set::equals)),
    ("$setField", special(object::parse_set_field)),
    ("$setIntersection", any_number(set::intersection)),
    ("$setIsSubset", exactly(2, set::is_subset)),
    ("$setUnion", any_number(set::union)),
    ("$shift", OperatorSupport::Unsupported),
    ("$sigmoid", special(power::parse_sigmoid)),
    ("$similarityCosine", special(similarity::parse)),
    ("$similarityDotProduct", special(similarity::parse)),
    ("$similarityEuclidean", special(similarity::parse)),
    ("$sin", exactly(1, trigonometry::sin)),
    ("$sinh", exactly(1, trigonometry::sinh)),
    ("$size", exactly(1, array::size)),
    ("$slice", between(2, 3, array::slice)),
    ("$sortArray", special(order::parse_sort)),
    ("$split", exactly(2, text::split)),
    ("$sqrt", exactly(1, power::sqrt)),
    ("$stdDevPop", any_number(accumulate::deviation_of_population)),
    ("$stdDevSamp", any_number(accumulate::deviation_of_sample)),
    ("$strLenBytes", exactly(1, text::length_in_bytes)),
    ("$strLenCP", exactly(1, text::length_in_characters)),
    ("$strcasecmp", exactly(2, text::compare_without_case)),
    ("$substr", exactly(3, text::part_in_bytes)),
    ("$substrBytes", exactly(3, text::part_in_bytes)),
    ("$substrCP", exactly(3, text::part_in_characters)),
    ("$subtract", exactly(2, arithmetic::subtract)),
    ("$subtype", exactly(1, convert::subtype_of)),
    ("$sum", any_number(accumulate::sum)),
    ("$switch", special(switch::parse)),
    ("$tan", exactly(1, trigonometry::tan)),
    ("$tanh", exactly(1, trigonometry::tanh)),
    ("$toArray", conversion(convert::to_array)),
    ("$toBool", conversion(convert::to_bool)),
    ("$toDate", conversion(convert::to_date)),
    ("$toDecimal", conversion(convert::to_decimal)),
    ("$toDouble", conversion(convert::to_double)),
    ("$toHashedIndexKey", special(identity::parse_hash)),
    ("$toInt", conversion(convert::to_int)),
    ("$toLong", conversion(convert::to_long)),
    ("$toLower", exactly(1, text::to_lower)),
    ("$toObject", conversion(convert::to_object)),
    ("$toObjectId", conversion(convert::to_object_id)),
    ("$toString", conversion(convert::to_string)),
    ("$toUUID", conversion(identity::to_uuid)),
    ("$toUpper", exactly(1, text::to_upper)),
    ("$top", special(order::parse_best)),
    ("$topN", special(order::parse_best)),
    ("$trim", named(&text::TRIM, text::trim)),
    ("$trunc", between(1, 2, round::truncate)),
    ("$tsIncrement", exactly(1, date::timestamp_increment)),
    ("$tsSecond", exactly(1, date::timestamp_second)),
    ("$type", exactly(1, convert::type_of)),
    ("$unsetField", special(object::parse_unset_field)),
    ("$week", special(date::parse_part)),
    ("$year", special(date::parse_part)),
    ("$zip", special(sequence::parse_zip)),
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_known_by_their_whole_name() {
        assert!(known("$add").is_some_and(|(found, _)| found == "$add"));
        assert!(known("$nothing").is_none());
        assert!(known("add").is_none());
    }
}
