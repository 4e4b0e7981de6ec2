//! Searches: `$in`, and the positions of elements in arrays and of parts in texts.

use crate::code::Code;
use crate::expression::error::Error;
use crate::expression::node::Arguments;
use crate::expression::value::Value;
use crate::value::elements;

pub(super) fn contains<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let (value, list) = (arguments.value(0)?, arguments.value(1)?);
    let array = list.or_null().as_array();
    let array = array
        .ok_or_else(|| arguments.wrong_type(Code::IN_ARRAY_TYPE, "the second argument", "an array", &list))?;
    // A missing value equals no element: an array holds none.
    let Some(value) = value.get() else { return Ok(Value::FALSE) };
    Ok(Value::boolean(elements(array).any(|element| arguments.collation().compare(element, value).is_eq())))
}

pub(super) fn index_of_array<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let list = arguments.value(0)?;
    if list.is_nullish() {
        return Ok(Value::NULL);
    }
    let array = list.or_null().as_array();
    let array = array.ok_or_else(|| {
        arguments.wrong_type(Code::INDEX_OF_ARRAY_TYPE, "the first argument", "an array", &list)
    })?;
    let (start, end) = window(arguments, (Code::INDEX_OF_BOUND_TYPE, Code::INDEX_OF_BOUND_NEGATIVE))?;
    let wanted = arguments.value(1)?;
    let Some(wanted) = wanted.get() else { return Ok(Value::int(-1)) };
    // The end comes first: `take` after `skip` would count from the start.
    let mut within = elements(array).enumerate().take(end).skip(start);
    Ok(found(
        within.find(|(_, element)| arguments.collation().compare(*element, wanted).is_eq()).map(|(at, _)| at),
    ))
}

pub(super) fn index_of_bytes<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let Some((text, part)) =
        texts(arguments, (Code::INDEX_OF_BYTES_TEXT_TYPE, Code::INDEX_OF_BYTES_PART_TYPE))?
    else {
        return Ok(Value::NULL);
    };
    let (text, part) = (content(&text), content(&part));
    let (start, end) = window(arguments, (Code::INDEX_OF_BOUND_TYPE, Code::INDEX_OF_BOUND_NEGATIVE))?;
    let end = end.min(text.len());
    if start > end {
        return Ok(Value::int(-1));
    }
    if part.is_empty() {
        return Ok(Value::count(start));
    }
    // A text begins nowhere but where a character does, so the search may go by characters: the standard library's
    // needs time by the sum of both lengths, where comparing at every byte needs their product.
    let first = (start..=end).find(|place| text.is_char_boundary(*place)).unwrap_or(end);
    let within = text.get(first..).unwrap_or_default();
    let place = within.find(part).map(|place| place + first);
    Ok(found(place.filter(|place| place + part.len() <= end)))
}

/// `$indexOfCP`: positions and bounds count characters. A match may reach over the end if it starts before it.
pub(super) fn index_of_characters<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let Some((text, part)) = texts(arguments, (Code::INDEX_OF_CP_TEXT_TYPE, Code::INDEX_OF_CP_PART_TYPE))?
    else {
        return Ok(Value::NULL);
    };
    let (text, part) = (text.or_null(), part.or_null());
    let (text, part) = (text.as_str().unwrap_or_default(), part.as_str().unwrap_or_default());
    let (start, end) = window(arguments, (Code::INDEX_OF_BOUND_TYPE, Code::INDEX_OF_BOUND_NEGATIVE))?;
    // An empty text has no character to start at, and the empty part is in it all the same.
    if text.is_empty() && part.is_empty() && start == 0 {
        return Ok(Value::int(0));
    }
    let Some((first, _)) = text.char_indices().nth(start) else { return Ok(Value::int(-1)) };
    let after = text.get(first..).unwrap_or_default();
    let at =
        after.find(part).and_then(|place| after.get(..place)).map(|before| start + before.chars().count());
    Ok(found(at.filter(|at| *at < end)))
}

/// The text to search, and the part to find. Returns `None` if the text is null.
fn texts<'d>(
    arguments: &Arguments<'_, 'd>,
    codes: (Code, Code),
) -> Result<Option<(Value<'d>, Value<'d>)>, Error> {
    let text = arguments.value(0)?;
    if text.is_nullish() {
        return Ok(None);
    }
    if text.or_null().as_str().is_none() {
        return Err(arguments.wrong_type(codes.0, "the first argument", "a string", &text));
    }
    let part = arguments.value(1)?;
    // Only the text to search may be null.
    if part.or_null().as_str().is_none() {
        return Err(arguments.wrong_type(codes.1, "the second argument", "a string", &part));
    }
    Ok(Some((text, part)))
}

/// The start and the end of a search: by default the whole.
fn window(arguments: &Arguments<'_, '_>, codes: (Code, Code)) -> Result<(usize, usize), Error> {
    let bound = |at, name, default| match arguments.given(at)? {
        None => Ok(default),
        Some(value) => arguments.position(codes, name, &value),
    };
    Ok((bound(2, "the start", 0)?, bound(3, "the end", usize::MAX)?))
}

/// A position, or -1 for none.
fn found<'d>(place: Option<usize>) -> Value<'d> {
    place.map_or(Value::int(-1), Value::count)
}

fn content<'v>(text: &'v Value<'_>) -> &'v str {
    text.get().and_then(bson::RawBsonRef::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error};

    #[test]
    fn members_are_found_by_value() {
        check(bson!({ "$in": [2.0, "$list"] }), bson!(true));
        check(bson!({ "$in": [[3], "$list"] }), bson!(false));
        check(bson!({ "$in": ["$missing", [null]] }), bson!(false));
        check_error(bson!({ "$in": [1, "$missing"] }), 40_081);
        check_error(bson!({ "$in": [1, 1] }), 40_081);
    }

    #[test]
    fn elements_have_a_position() {
        check(bson!({ "$indexOfArray": ["$list", 2] }), bson!(2));
        check(bson!({ "$indexOfArray": ["$list", 9] }), bson!(-1));
        check(bson!({ "$indexOfArray": ["$list", 2, 1] }), bson!(2));
        check(bson!({ "$indexOfArray": ["$list", 2, 0, 2] }), bson!(-1));
        check(bson!({ "$indexOfArray": ["$list", 2, 5, 2] }), bson!(-1));
        check(bson!({ "$indexOfArray": ["$missing", 2] }), Bson::Null);
        check_error(bson!({ "$indexOfArray": ["x", 2] }), 40_090);
        check_error(bson!({ "$indexOfArray": ["$list", 2, "x"] }), 40_096);
        check_error(bson!({ "$indexOfArray": ["$list", 2, -1] }), 40_097);
        check_error(bson!({ "$indexOfArray": ["$list"] }), 28_667);
    }

    #[test]
    fn texts_are_searched_by_byte() {
        check(bson!({ "$indexOfBytes": ["vanilla", "ll"] }), bson!(4));
        check(bson!({ "$indexOfBytes": ["$missing", "ll"] }), Bson::Null);
        check(bson!({ "$indexOfBytes": ["vanilla", "ll", 12] }), bson!(-1));
        check(bson!({ "$indexOfBytes": ["vanilla", "n", 0, 2] }), bson!(-1));
        check(bson!({ "$indexOfBytes": ["vanilla", "", 2] }), bson!(2));
        check(bson!({ "$indexOfBytes": ["éa", "a"] }), bson!(2));
        check(bson!({ "$indexOfBytes": ["", ""] }), bson!(0));
        check_error(bson!({ "$indexOfBytes": [1, "a"] }), 40_091);
        check_error(bson!({ "$indexOfBytes": ["a", null] }), 40_092);
        check_error(bson!({ "$indexOfBytes": ["a", "a", "x"] }), 40_096);
        check_error(bson!({ "$indexOfBytes": ["a", "a", -1] }), 40_097);
    }

    #[test]
    fn texts_are_searched_by_character() {
        check(bson!({ "$indexOfCP": ["éa", "a"] }), bson!(1));
        check(bson!({ "$indexOfCP": ["cafétéria", "é", 4] }), bson!(5));
        check(bson!({ "$indexOfCP": ["", ""] }), bson!(0));
        check(bson!({ "$indexOfCP": ["abc", "c", 0, 2] }), bson!(-1));
        check(bson!({ "$indexOfCP": ["abc", "c", 3] }), bson!(-1));
        check_error(bson!({ "$indexOfCP": [1, "a"] }), 40_093);
        check_error(bson!({ "$indexOfCP": ["a", 1] }), 40_094);
    }
}
