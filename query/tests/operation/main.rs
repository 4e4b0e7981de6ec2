//! What operations may use: how many steps questions and computations take, that they end when they are told to, and
//! that what they hold is bounded.
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

/// What stays small when the input doubles: a little more than twice the steps, and a start.
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

/// What grows with the product of a question and a document, and no faster.
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

/// A cancelled token ends whatever loops, wherever it is.
#[test]
fn everything_that_loops_ends_when_it_is_told_to() {
    let token = CancellationToken::new();
    token.cancel();
    let cancelled =
        || OperationContext::new(Allowance { tokens: vec![token.clone()], ..Allowance::default() });
    let wide = doc! { "a": numbers(10_000) };

    let filter = Filter::parse(&raw(&doc! { "a": -1 })).expect("a filter");
    assert_eq!(
        filter.matches_within(&raw(&wide), &cancelled()),
        Err(FilterError::Interrupted(Interruption::Cancelled))
    );

    let variables = Variables::default().within(cancelled());
    let whole = raw(&doc! { "e": { "$map": { "input": "$a", "in": "$$this" } } });
    let expression = Expression::parse(operand(&whole), &Variables::default()).expect("an expression");
    let refused = expression.evaluate(&raw(&wide), &variables).expect_err("it ends");
    assert_eq!(refused.code(), 11_601);

    let update = Update::parse(&raw(&doc! { "$pull": { "a": { "$lt": 0 } } }), &[]).expect("an update");
    let (now, stamp) = (bson::DateTime::from_millis(0), bson::Timestamp { time: 1, increment: 1 });
    let context = Context::new(Phase::Modify, now, stamp).within(cancelled());
    assert_eq!(update.apply(&raw(&wide), &context).expect_err("it ends").code(), 11_601);

    let sort = Sort::parse(&raw(&doc! { "a": 1 })).expect("a sort");
    let mut sorter: Sorter<RawDocumentBuf> = Sorter::new(sort, None, usize::MAX).within(&cancelled());
    let one = raw(&doc! { "a": 1 });
    let refused = (0..1_000).find_map(|_| sorter.push(&one, || one.clone()).err());
    assert_eq!(refused.map(|error| error.code().number()), Some(11_601));

    let group = Pipeline::parse(&[raw(&doc! { "$group": { "_id": "$n" } })], &variables).expect("a pipeline");
    let input = (0..1_000).map(|n| Ok::<_, PipelineError>(raw(&doc! { "n": n })));
    let refused = group.run(Given::new(input)).find_map(Result::err);
    assert_eq!(refused.map(|error| error.code().number()), Some(11_601));
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
