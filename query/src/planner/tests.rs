//! Plans that were given up at any step are right: they reach every match, and decide only what they may.

use bson::{Document, RawDocumentBuf, doc};
use index::multikey::ArrayComponents;
use index::spec::SpecOptions;

use super::*;
use crate::filter::Filter;
use crate::operation::{Allowance, CancellationToken};
use crate::sort::Sort;

/// Documents without arrays: `a` and `b` of all pairs of small numbers, some without `b`.
fn documents() -> Vec<RawDocumentBuf> {
    let pairs = (0..6).flat_map(|a| (0..6).map(move |b| (a, b)));
    let document = |(a, b)| {
        let id = a * 6 + b;
        if b == 5 {
            doc! { "_id": id, "a": a }
        } else {
            doc! { "_id": id, "a": a, "b": b }
        }
    };
    pairs.map(|pair| raw(&document(pair))).collect()
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn spec(keys: &Document) -> index::spec::IndexSpec {
    index::spec::IndexSpec::parse(&raw(keys), SpecOptions::default()).unwrap()
}

/// Whether a plan finds a document, by the filter where the plan does not decide.
fn finds(access: &Access, indexes: &[IndexView<'_>], document: &RawDocumentBuf, filter: &Filter) -> bool {
    let value = |path: &str| document.get(path).ok().flatten().unwrap_or(bson::RawBsonRef::Null);
    match access {
        Access::Nothing => false,
        Access::Records(scan) => scan.ids.contains(value("_id")) && filter.matches(document),
        Access::Entries(scan) => {
            let mut fields = indexes[scan.index].spec.fields().iter().zip(&scan.bounds);
            fields.all(|(field, set)| set.contains(value(field.path.as_str())))
                && match &scan.answer {
                    _ if scan.decides => true,
                    Some(answer) if answer.covers => {
                        answer.residual.as_ref().is_none_or(|residual| residual.matches(document))
                    }
                    Some(_) | None => filter.matches(document),
                }
        }
        Access::Union(Union { scans, .. }) | Access::Merge(Merge { scans, .. }) => {
            scans.iter().any(|scan| finds(scan, indexes, document, filter))
        }
    }
}

/// Plans a request with any number of steps, and returns how many it needs.
#[track_caller]
fn check_request(request: &Request<'_>) -> usize {
    let operation = OperationContext::counting();
    let filter = request.filter.unwrap();
    let mut steps = 0;
    loop {
        let budget = PlanningBudget::of_steps(&operation, steps);
        let found = plans_within(request, &budget);
        assert!(!found.is_empty());
        let each =
            found.iter().flat_map(|plan| documents().into_iter().map(move |document| (plan, document)));
        for (plan, document) in each {
            let is_found = finds(&plan.access, request.indexes, &document, filter);
            assert_eq!(is_found, filter.matches(&document), "{steps} steps: {document:?} {plan:?}");
        }
        if !budget.is_over() {
            return steps;
        }
        steps += 1;
    }
}

/// Plans with any number of steps find the documents that match.
#[track_caller]
fn check(filter: &Document, sort: &Document) {
    let (parsed, sort) = (Filter::parse(&raw(filter)).unwrap(), Sort::parse(&raw(sort)).unwrap());
    let specs =
        [doc! { "a": 1 }, doc! { "a": 1, "c": 1, "b": 1 }, doc! { "b": 1, "a": 1 }].map(|keys| spec(&keys));
    let indexes = specs.each_ref().map(|spec| IndexView { has_details: true, ..IndexView::new(spec, &[]) });
    let fields = [FieldPath::parse("a").unwrap()];
    let mut counts = Vec::new();
    for needs in [Needs::Documents, Needs::Fields(&fields), Needs::Fields(&[])] {
        for hint in [None, Some(Hint::Index(0)), Some(Hint::Index(2))] {
            let request = Request {
                filter: Some(&parsed),
                sort: Some(&sort),
                indexes: &indexes,
                hint,
                needs,
                ..Request::default()
            };
            counts.push(check_request(&request));
        }
    }
    assert!(counts.iter().all(|count| (3..5000).contains(count)), "{counts:?} steps for {filter}");
}

#[test]
fn a_plan_that_was_given_up_at_any_step_finds_every_match() {
    check(&doc! { "a": { "$in": [1, 2, 4] }, "b": { "$gt": 1 } }, &doc! { "c": 1 });
    check(
        &doc! { "$or": [{ "a": { "$in": [1, 2] }, "b": 3 }, { "b": 4, "a": { "$lt": 3 } }] },
        &doc! { "c": 1 },
    );
    check(
        &doc! { "a": { "$nin": [1, 2, 3] }, "$or": [{ "b": 1 }, { "b": { "$exists": false } }] },
        &doc! { "a": 1 },
    );
    let many: Vec<i32> = (0..20).collect();
    check(
        &doc! { "a": { "$in": &many, "$gt": 2 }, "$or": [{ "a": { "$lte": 4 } }, { "b": 2 }] },
        &doc! { "b": 1 },
    );
    check(&doc! { "$nor": [{ "a": { "$in": &many[2..] } }, { "b": 5 }] }, &doc! { "a": 1 });
}

/// A filter whose branches each have a list of their own, as long as the one beside them.
fn multiplying(branches: i32, values: i32) -> Filter {
    let all: Vec<i32> = (0..values).collect();
    let branches: Vec<Document> = (0..branches).map(|b| doc! { "a": { "$gte": b }, "b": b }).collect();
    Filter::parse(&raw(&doc! { "a": { "$in": all }, "$or": branches })).unwrap()
}

/// The bounds of 800 branches beside 20,000 values have nearly 16 million intervals for each index, and nothing counted them.
#[test]
fn planning_takes_steps_and_bytes_in_proportion_to_the_filter() {
    let specs = [doc! { "b": 1, "a": 1 }, doc! { "a": 1, "b": 1 }].map(|keys| spec(&keys));
    let indexes = specs.each_ref().map(|spec| IndexView::new(spec, &[]));
    let operation = OperationContext::counting();
    let filter = multiplying(800, 20_000);
    let request = Request { filter: Some(&filter), indexes: &indexes, ..Request::default() };
    let found = plans(&request, &operation);
    assert!(operation.steps_taken() < 2_000_000, "{operation:?}");
    assert_eq!(operation.bytes_reserved(), 0);
    // The earlier plan is used: one list of values.
    assert!(
        matches!(&found[0].access, Access::Entries(scan) if scan.bounds.iter().any(Intervals::is_points))
    );
    // A few branches are planned as before.
    let filter = multiplying(8, 20);
    let found = plans(&Request { filter: Some(&filter), ..request }, &operation);
    assert!(found.iter().any(|plan| matches!(&plan.access, Access::Union(union) if union.scans.len() == 8)));
}

#[test]
fn an_operation_without_memory_is_planned_without_lists() {
    let specs = [spec(&doc! { "a": 1 })];
    let indexes = specs.each_ref().map(|spec| IndexView::new(spec, &[]));
    let filter = multiplying(2, 20_000);
    let request = Request { filter: Some(&filter), indexes: &indexes, ..Request::default() };
    let operation = OperationContext::new(Allowance { bytes: Some(1 << 20), ..Allowance::default() });
    let found = plans(&request, &operation);
    assert!(matches!(&found[0].access, Access::Records(scan) if scan.ids.is_all()));
    let hinted = plans(&Request { hint: Some(Hint::Index(0)), ..request }, &operation);
    assert!(matches!(&hinted[0].access, Access::Entries(scan) if scan.bounds[0].is_all()));
    // The rejection is not an end of the operation.
    assert_eq!((operation.verdict(), operation.bytes_reserved()), (Ok(()), 0));
}

#[test]
fn an_operation_that_is_to_end_plans_no_further() {
    let specs = [spec(&doc! { "a": 1 })];
    let indexes = specs.each_ref().map(|spec| IndexView::new(spec, &[]));
    let filter = multiplying(500, 500);
    let request = Request { filter: Some(&filter), indexes: &indexes, ..Request::default() };
    let token = CancellationToken::new();
    let operation = OperationContext::new(Allowance { tokens: vec![token.clone()], ..Allowance::default() });
    token.cancel();
    let found = plans(&request, &operation);
    assert!(operation.steps_taken() < 10 && operation.verdict().is_err(), "{operation:?}");
    assert!(matches!(&found[0].access, Access::Records(scan) if scan.ids.is_all()));
}

/// Two shortened keys with one beginning are in the order of their digests.
#[test]
fn shortened_keys_give_no_order_and_are_no_arrays() {
    let spec = spec(&doc! { "a": 1, "b": 1 });
    let is_sorted = |sort: &Document, marks: &[ArrayComponents], has_shortened_ids: bool| {
        let sort = Sort::parse(&raw(sort)).unwrap();
        let filter = Filter::parse(&raw(&doc! { "a": { "$gt": 0, "$lt": 3 } })).unwrap();
        let view = IndexView { has_shortened_ids, ..IndexView::new(&spec, marks) };
        let indexes = [view];
        let request = Request {
            filter: Some(&filter),
            sort: Some(&sort),
            indexes: &indexes,
            has_shortened_ids,
            ..Request::default()
        };
        let plan = plans(&request, &OperationContext::unlimited()).swap_remove(0);
        let Access::Entries(scan) = &plan.access else { panic!("{plan:?}") };
        // Both ends of the range bound one scan, which with arrays they would not.
        assert!(scan.bounds[0].as_slice().len() == 1 && !scan.has_duplicates, "{plan:?}");
        assert!(scan.bounds[0].contains(bson::RawBsonRef::Int32(2)) && !scan.bounds[0].is_all());
        plan.is_sorted
    };
    let (exact, shortened) = (ArrayComponents::NONE, ArrayComponents::SHORTENED);
    assert!(is_sorted(&doc! { "a": 1, "b": 1 }, &[exact, exact], false));
    assert!(!is_sorted(&doc! { "a": 1, "b": 1 }, &[exact, shortened], false));
    assert!(is_sorted(&doc! { "a": 1 }, &[exact, shortened], false));
    assert!(!is_sorted(&doc! { "a": 1 }, &[shortened, exact], false));
    assert!(is_sorted(&doc! { "a": 1, "b": 1, "_id": 1 }, &[exact, exact], false));
    assert!(!is_sorted(&doc! { "a": 1, "b": 1, "_id": 1 }, &[exact, exact], true));
}

/// What is planned by one index alone is what the rules would have chosen among all plans.
#[test]
fn the_plan_for_one_path_is_that_of_the_rules() {
    let filters = [
        doc! { "a": { "$gt": 1, "$lte": 4 } },
        doc! { "a": { "$in": [1, 3] } },
        doc! { "a": { "$in": [1, 3] }, "$and": [{ "a": { "$ne": 2 } }] },
        doc! { "a": { "$exists": true } },
        doc! { "a": { "$ne": 3 } },
        doc! { "a": { "$gt": 4, "$lt": 2 } },
        doc! { "a": 2 },
        doc! { "a": null },
        doc! { "b": { "$gt": 3 } },
        doc! { "a": { "$elemMatch": { "x": 5 }, "$type": "object" } },
        doc! { "a": { "$elemMatch": { "$gt": 2 } } },
    ];
    let sorts = [
        doc! {},
        doc! { "a": 1 },
        doc! { "a": -1 },
        doc! { "b": 1 },
        doc! { "a": 1, "b": 1 },
        doc! { "_id": 1 },
    ];
    let sets = [
        vec![doc! { "a": 1 }],
        vec![doc! { "b": 1 }, doc! { "a": -1 }],
        vec![doc! { "b": 1, "a": 1 }, doc! { "a": 1, "b": 1 }],
        vec![doc! { "a": 1, "c": 1 }, doc! { "c": 1, "a": 1 }, doc! { "b": 1 }],
        vec![doc! { "a": 1 }, doc! { "a": 1, "b": 1 }],
        vec![doc! { "a": 1 }, doc! { "a.x": 1 }],
    ];
    let (a, b) = (FieldPath::parse("a").unwrap(), FieldPath::parse("b").unwrap());
    let both = [a.clone(), b];
    let needs = [Needs::Documents, Needs::Fields(&both[..1]), Needs::Fields(&both), Needs::Fields(&[])];
    let (operation, mut alone) = (OperationContext::unlimited(), 0);
    let cases = filters.iter().flat_map(|filter| sorts.iter().map(move |sort| (filter, sort)));
    let cases = cases.flat_map(|case| sets.iter().map(move |set| (case, set)));
    for ((filter, sort), set) in cases {
        let (filter, sort) = (Filter::parse(&raw(filter)).unwrap(), Sort::parse(&raw(sort)).unwrap());
        let specs: Vec<_> = set.iter().map(spec).collect();
        for (needs, arrays) in
            needs.iter().flat_map(|needs| [(needs, ArrayComponents::NONE), (needs, ArrayComponents::ALL)])
        {
            let is_a = |field: &index::spec::IndexField| field.path == a;
            let of_field = |field| if is_a(field) { arrays } else { ArrayComponents::NONE };
            let arrays: Vec<Vec<_>> =
                specs.iter().map(|spec| spec.fields().iter().map(of_field).collect()).collect();
            let views: Vec<_> =
                specs.iter().zip(&arrays).map(|(spec, arrays)| IndexView::new(spec, arrays)).collect();
            let sort = Some(&sort).filter(|sort| !sort.is_empty());
            for reads_all in [false, true] {
                let request = Request {
                    filter: Some(&filter),
                    sort,
                    indexes: &views,
                    needs: *needs,
                    reads_all,
                    ..Request::default()
                };
                let budget = filter.planning_budget(&operation);
                let (found, expected) = (plans_within(&request, &budget), by_rules(&request, &budget));
                alone += usize::from(found.len() < expected.len());
                assert_eq!(format!("{:?}", found[0]), format!("{:?}", expected[0]), "{request:?}");
            }
        }
    }
    assert!(alone > 500, "{alone}");
}
