//! The limits of operations: the steps of questions and computations, their end when they are asked to end, and the
//! bounds of what they hold.
//!
//! Nothing here looks at a clock: steps are counted by the operation itself.

use std::time::Duration;

use bson::{Bson, Document, RawBsonRef, RawDocumentBuf, doc};
use cairndb_query::error::Error as FilterError;
use cairndb_query::expression::{Expression, Variables};
use cairndb_query::filter::Filter;
use cairndb_query::operation::{Allowance, CancellationToken, Interruption, MemoryBudget, OperationContext};
use cairndb_query::pipeline::Pipeline;
use cairndb_query::pipeline::error::Error as PipelineError;
use cairndb_query::pipeline::stream::Given;
use cairndb_query::sort::Sort;
use cairndb_query::sort::collect::Sorter;
use cairndb_query::update::{Context, Phase, Update};

const MEBIBYTE: usize = 1 << 20;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document that can be written")
}

/// The expression in the field `e`.
fn operand(whole: &RawDocumentBuf) -> RawBsonRef<'_> {
    whole.get("e").expect("well-formed").expect("it is there")
}

/// Work that stays small when the input doubles: a little more than twice the steps, and a start.
#[track_caller]
fn check_linear(name: &str, steps: impl Fn(usize) -> u64) {
    for size in [50, 200, 800] {
        let (once, twice) = (steps(size), steps(2 * size));
        assert!(once > 0, "{name} counts nothing");
        assert!(
            twice <= 2 * once + once / 4 + 100,
            "{name}: {once} steps for {size}, {twice} for twice that"
        );
    }
}

/// Work that grows with the product of a question and a document, and no faster.
#[track_caller]
fn check_product(name: &str, steps: impl Fn(usize, usize) -> u64) {
    for (left, right) in [(20, 20), (100, 20), (20, 100)] {
        let (once, twice) = (steps(left, right), steps(2 * left, 2 * right));
        assert!(
            twice <= 5 * once + 100,
            "{name}: {once} steps for {left} by {right}, {twice} for twice that"
        );
    }
}

fn steps_of_filter(filter: &Document, document: &Document) -> u64 {
    let context = OperationContext::counting();
    let parsed = Filter::parse(&raw(filter)).expect("a filter");
    let _ = parsed.matches_within(&raw(document), &context).expect("nothing ends it");
    context.steps_taken()
}

fn steps_of_expression(expression: &Document, document: &Document) -> u64 {
    let context = OperationContext::counting();
    let variables = Variables::default().within(context.clone());
    let whole = raw(&doc! { "e": expression });
    let parsed = Expression::parse(operand(&whole), &variables).expect("an expression");
    parsed.evaluate(&raw(document), &variables).expect("it has a value");
    context.steps_taken()
}

fn steps_of_update(update: &Document, filters: &[Document], document: &Document) -> u64 {
    let operation = OperationContext::counting();
    let filters: Vec<_> = filters.iter().map(raw).collect();
    let parsed = Update::parse(&raw(update), &filters).expect("an update");
    let (now, stamp) = (bson::DateTime::from_millis(0), bson::Timestamp { time: 1, increment: 1 });
    let context = Context::new(Phase::Modify, now, stamp).within(operation.clone());
    parsed.apply(&raw(document), &context).expect("it can be applied");
    operation.steps_taken()
}

fn numbers(count: usize) -> Vec<i32> {
    (0..i32::try_from(count).expect("a small number")).collect()
}

#[test]
fn filters_take_steps_by_the_length_of_arrays() {
    check_linear("elements", |size| steps_of_filter(&doc! { "a": -1 }, &doc! { "a": numbers(size) }));
    check_linear("$elemMatch", |size| {
        let objects: Vec<Document> = numbers(size).into_iter().map(|n| doc! { "n": n }).collect();
        steps_of_filter(&doc! { "a": { "$elemMatch": { "n": -1 } } }, &doc! { "a": objects })
    });
    check_linear("$in", |size| {
        steps_of_filter(
            &doc! { "a": { "$in": numbers(size) } },
            &doc! { "a": numbers(size).iter().map(|n| n + 100_000).collect::<Vec<_>>() },
        )
    });
    check_linear("$or", |size| {
        let branches: Vec<Document> = numbers(size).into_iter().map(|n| doc! { "a": n + 1 }).collect();
        steps_of_filter(&doc! { "$or": branches }, &doc! { "a": -1 })
    });
}

#[test]
fn filters_take_steps_by_conditions_and_values() {
    check_product("$or of elements", |conditions, values| {
        let branches: Vec<Document> = numbers(conditions).iter().map(|_| doc! { "a": -1 }).collect();
        steps_of_filter(&doc! { "$or": branches }, &doc! { "a": numbers(values) })
    });
    check_product("$jsonSchema", |rules, values| {
        let all: Vec<Document> = numbers(rules).iter().map(|_| doc! { "minimum": 0 }).collect();
        let schema = doc! { "properties": { "a": { "items": { "allOf": all } } } };
        steps_of_filter(&doc! { "$jsonSchema": schema }, &doc! { "a": numbers(values) })
    });
}

/// Conditions nested in each other see arrays nested in each other: one level of the document each.
#[test]
fn nested_conditions_take_steps_by_levels() {
    let nested = |levels: usize| {
        let mut condition = doc! { "$elemMatch": { "$eq": -1 } };
        let mut value = Bson::from(numbers(4));
        for _ in 1..levels {
            condition = doc! { "$elemMatch": condition };
            value = Bson::Array(vec![value]);
        }
        steps_of_filter(&doc! { "a": condition }, &doc! { "a": value })
    };
    for levels in [4, 8, 16, 32] {
        assert!(nested(2 * levels) <= 3 * nested(levels), "{levels}");
    }
}

/// Every condition of the tree is looked at: none of an `$or` holds, and the first of each `$and` does.
#[test]
fn trees_of_conditions_take_steps_by_their_size() {
    let in_none = || doc! { "a": { "$in": [-1, -2, -3] } };
    let chain = |levels: usize| {
        let mut condition = in_none();
        for _ in 0..levels {
            condition = doc! { "$and": [{ "a": { "$gte": 0 } }, condition] };
            condition = doc! { "$or": [in_none(), condition] };
        }
        steps_of_filter(&condition, &doc! { "a": numbers(4) })
    };
    for levels in [3, 6, 12, 24] {
        assert!(chain(2 * levels) <= 3 * chain(levels), "{levels}");
    }
    check_linear("a tree of $or and $in", |size| {
        let mut layer: Vec<Document> = numbers(size).iter().map(|_| in_none()).collect();
        while layer.len() > 1 {
            layer = layer.chunks(2).map(|pair| doc! { "$or": pair }).collect();
        }
        steps_of_filter(&doc! { "$or": layer }, &doc! { "a": 1 })
    });
}

/// The matcher counts by itself, and asks after some thousand of its steps: each question is counted here.
#[test]
fn patterns_take_steps_by_the_length_of_texts() {
    for pattern in ["^(?:[a-z]|[0-9])*!$", "^(?>[a-z]|[0-9])+!(?<=!)$", "(?:[a-z][0-9]){3}!"] {
        check_linear(pattern, |size| {
            let text = format!("{}!", "a1".repeat(18 * size));
            steps_of_filter(&doc! { "a": { "$regex": pattern } }, &doc! { "a": text })
        });
    }
}

#[test]
fn updates_take_steps_by_the_length_of_arrays() {
    check_linear("array filters", |size| {
        let update = doc! { "$set": { "a.$[low]": 0 } };
        steps_of_update(&update, &[doc! { "low": { "$lt": 0 } }], &doc! { "a": numbers(size) })
    });
    check_linear("$pull", |size| {
        steps_of_update(&doc! { "$pull": { "a": { "$lt": 0 } } }, &[], &doc! { "a": numbers(size) })
    });
}

#[test]
fn expressions_take_steps_by_the_length_of_arrays() {
    let with = |expression: Document| {
        move |size: usize| steps_of_expression(&expression, &doc! { "a": numbers(size) })
    };
    check_linear("$map", with(doc! { "$map": { "input": "$a", "in": { "$add": ["$$this", 1] } } }));
    check_linear("$filter", with(doc! { "$filter": { "input": "$a", "cond": { "$gt": ["$$this", 1] } } }));
    check_linear(
        "$reduce",
        with(
            doc! { "$reduce": { "input": "$a", "initialValue": 0, "in": { "$add": ["$$value", "$$this"] } } },
        ),
    );
    check_linear("$setUnion", with(doc! { "$setUnion": ["$a", "$a"] }));
    check_linear("$range", with(doc! { "$range": [0, { "$size": "$a" }] }));
}

/// An operation in its middle that is to end. Its first step looks in any case, so that one was taken before: what ends now
/// looks on its way.
fn ending() -> OperationContext {
    let token = CancellationToken::new();
    let operation = OperationContext::new(Allowance { tokens: vec![token.clone()], ..Allowance::default() });
    operation.step().expect("it goes on");
    token.cancel();
    operation
}

/// A cancelled token ends whatever loops, wherever it is.
#[test]
fn everything_that_loops_ends_when_it_is_told_to() {
    let wide = doc! { "a": numbers(10_000) };
    let filter = Filter::parse(&raw(&doc! { "a": -1 })).expect("a filter");
    assert_eq!(
        filter.matches_within(&raw(&wide), &ending()),
        Err(FilterError::Interrupted(Interruption::Cancelled))
    );

    let update = Update::parse(&raw(&doc! { "$pull": { "a": { "$lt": 0 } } }), &[]).expect("an update");
    let (now, stamp) = (bson::DateTime::from_millis(0), bson::Timestamp { time: 1, increment: 1 });
    let context = Context::new(Phase::Modify, now, stamp).within(ending());
    assert_eq!(update.apply(&raw(&wide), &context).expect_err("it ends").code(), 11_601);

    let sort = Sort::parse(&raw(&doc! { "a": 1 })).expect("a sort");
    let mut sorter: Sorter<RawDocumentBuf> = Sorter::new(sort, None, usize::MAX).within(&ending());
    let one = raw(&doc! { "a": 1 });
    let refused = (0..1_000).find_map(|_| sorter.push(&one, || one.clone()).err());
    assert_eq!(refused.map(|error| error.code().number()), Some(11_601));

    let variables = Variables::default().within(ending());
    let group = Pipeline::parse(&[raw(&doc! { "$group": { "_id": "$n" } })], &variables).expect("a pipeline");
    let input = (0..1_000).map(|n| Ok::<_, PipelineError>(raw(&doc! { "n": n })));
    let refused = group.run(Given::new(input)).find_map(Result::err);
    assert_eq!(refused.map(|error| error.code().number()), Some(11_601));
}

/// An operator that goes through a text or an array was one step, or two: a hundred of them over the largest documents were
/// gigabytes between two looks.
#[test]
fn every_operator_that_goes_through_a_value_ends_when_it_is_told_to() {
    let objects: Vec<Document> = numbers(20_000).into_iter().map(|n| doc! { "n": n }).collect();
    let wide =
        raw(&doc! { "a": numbers(20_000), "o": objects, "t": "x,".repeat(100_000), "l": "x".repeat(200) });
    let in_order = doc! { "$sortArray": { "input": "$a", "sortBy": -1 } };
    for expression in [
        doc! { "$map": { "input": "$a", "in": "$$this" } },
        doc! { "$filter": { "input": "$a", "cond": { "$gt": ["$$this", 1] } } },
        doc! { "$reduce": { "input": "$a", "initialValue": 0, "in": { "$add": ["$$value", "$$this"] } } },
        doc! { "$range": [0, { "$size": "$a" }] },
        doc! { "$concatArrays": ["$a", "$a"] },
        doc! { "$setUnion": ["$a", "$a"] },
        doc! { "$reverseArray": "$a" },
        doc! { "$slice": ["$a", 15_000] },
        doc! { "$zip": { "inputs": ["$a", "$a"] } },
        in_order,
        doc! { "$in": [-1, "$a"] },
        doc! { "$indexOfArray": ["$a", -1] },
        doc! { "$sum": "$a" },
        doc! { "$sum": "$o.n" },
        doc! { "$concat": ["$t", "$t"] },
        doc! { "$split": ["$t", ","] },
        doc! { "$split": ["$t", "none"] },
        doc! { "$replaceAll": { "input": "$t", "find": "x", "replacement": "" } },
        // The text is short, and what becomes of it is long.
        doc! { "$replaceAll": { "input": "$l", "find": "x", "replacement": { "$concat": ["$l", "$l", "$l", "$l", "$l"] } } },
        doc! { "$trim": { "input": "$t", "chars": "x," } },
        doc! { "$toUpper": "$t" },
        doc! { "$substrCP": ["$t", 150_000, 1] },
        doc! { "$strLenCP": "$t" },
        doc! { "$indexOfCP": ["$t", "none"] },
        doc! { "$strcasecmp": ["$t", "$t"] },
        doc! { "$regexMatch": { "input": "$t", "regex": "xx|,," } },
        doc! { "$regexFindAll": { "input": "$t", "regex": "x," } },
    ] {
        let whole = raw(&doc! { "e": &expression });
        let parsed = Expression::parse(operand(&whole), &Variables::default()).expect("an expression");
        assert!(parsed.evaluate(&wide, &Variables::default()).is_ok(), "{expression} has a value");
        match parsed.evaluate(&wide, &Variables::default().within(ending())) {
            Ok(_) => panic!("{expression} goes on"),
            Err(refused) => assert_eq!(refused.code(), 11_601, "{expression}"),
        }
    }
}

fn bounded(bytes: usize) -> OperationContext {
    OperationContext::new(Allowance { bytes: Some(bytes), ..Allowance::default() })
}

/// Forty variables of many megabytes each were held at once: the only limit was that of one value.
#[test]
fn variables_are_held_by_the_operation() {
    let range = |number: i32| doc! { "$range": [{ "$add": ["$n", number] }, 100_000] };
    let values: Document = (0..40).map(|number| (format!("v{number}"), Bson::from(range(number)))).collect();
    let whole = raw(&doc! { "e": { "$let": { "vars": values, "in": { "$size": "$$v0" } } } });
    let operation = bounded(10 * MEBIBYTE);
    let variables = Variables::default().within(operation.clone());
    let expression = Expression::parse(operand(&whole), &variables).expect("an expression");
    let refused = expression.evaluate(&raw(&doc! { "n": 0 }), &variables).expect_err("too much");
    assert_eq!(refused.code(), 146, "{refused}");
    assert_eq!(operation.bytes_reserved(), 0, "what was built is let go");
}

/// Constants are computed when they are read, and stay for as long as the expression does.
#[test]
fn constants_are_held_by_the_operation() {
    let values: Document =
        (0..40).map(|number| (format!("v{number}"), Bson::from(doc! { "$range": [0, 100_000] }))).collect();
    let whole = raw(&doc! { "e": { "$let": { "vars": values, "in": { "$size": "$$v0" } } } });
    let operation = bounded(10 * MEBIBYTE);
    let variables = Variables::default().within(operation.clone());
    let expression = operand(&whole);
    let outcome = Expression::parse(expression, &variables)
        .and_then(|parsed| parsed.evaluate(&raw(&doc! {}), &variables));
    assert_eq!(outcome.expect_err("too much").code(), 146);
    assert_eq!(operation.bytes_reserved(), 0);
}

#[test]
fn nested_arrays_are_held_while_they_are_built() {
    let mut nested = doc! { "$range": ["$n", 50_000] };
    for _ in 0..30 {
        nested = doc! { "$concatArrays": [{ "$range": ["$n", 50_000] }, [{ "$size": nested }]] };
    }
    let whole = raw(&doc! { "e": nested });
    let operation = bounded(10 * MEBIBYTE);
    let variables = Variables::default().within(operation);
    let expression = Expression::parse(operand(&whole), &variables).expect("an expression");
    let refused = expression.evaluate(&raw(&doc! { "n": 0 }), &variables).expect_err("too much");
    assert_eq!(refused.code(), 146);
}

#[test]
fn a_sort_holds_what_it_keeps_until_it_was_given() {
    let shared = MemoryBudget::new(64 * MEBIBYTE);
    let allowance =
        Allowance { bytes: Some(8 * MEBIBYTE), shared: Some(shared.clone()), ..Allowance::default() };
    let operation = OperationContext::new(allowance);
    let sort = || Sort::parse(&raw(&doc! { "a": 1 })).expect("a sort");
    let large = raw(&doc! { "a": "x".repeat(MEBIBYTE) });

    let mut sorter = Sorter::new(sort(), None, usize::MAX).within(&operation);
    (0..3).try_for_each(|_| sorter.push(&large, || large.clone())).expect("there is room");
    let in_order = sorter.into_sorted_iter();
    assert!(operation.bytes_reserved() >= 6 * MEBIBYTE && shared.taken() >= 6 * MEBIBYTE);
    drop(in_order);
    assert_eq!((operation.bytes_reserved(), shared.taken()), (0, 0));

    let mut sorter = Sorter::new(sort(), None, usize::MAX).within(&operation);
    let refused = (0..10).find_map(|_| sorter.push(&large, || large.clone()).err());
    assert_eq!(refused.map(|error| error.code().number()), Some(146));
}

#[test]
fn time_at_rest_does_not_count() {
    let limit = Some(Duration::from_secs(3_600));
    let operation = OperationContext::new(Allowance { time: limit, ..Allowance::default() });
    operation.pause();
    operation.resume();
    assert!(operation.look().is_ok());
}
