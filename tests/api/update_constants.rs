//! `c`: the constants of a pipeline in a statement of `update`.

use cairndb::bson::{Document, doc};

use crate::Fixture;

#[test]
fn a_pipeline_of_an_update_has_constants() {
    let fixture = Fixture::with((0..3).map(|id| doc! { "_id": id, "a": id }));
    let name = fixture.things.name().to_owned();
    let database = fixture.client.database(&fixture.things.namespace().db);
    let update = |statements: Vec<Document>, given: Document| {
        database.run_command(doc! { "update": &name, "updates": statements, "let": given }).run()
    };
    let set = |variable: &str| vec![doc! { "$set": { "a": variable } }];
    // Each statement has its own. They are values, not expressions, and hide what the command defines.
    let first = doc! { "q": { "_id": 0 }, "u": set("$$k"), "c": { "k": 5, "other": 1 } };
    let second = doc! { "q": { "_id": 1 }, "u": set("$$k"), "c": { "k": "$a" } };
    let third =
        doc! { "q": { "$expr": { "$eq": ["$_id", "$$k"] } }, "u": set("$$k"), "c": { "k": [1, { "b": 2 }] } };
    let reply = update(vec![first, second, third], doc! { "k": 2 }).expect("a reply");
    assert_eq!((reply.get_i32("n").ok(), reply.contains_key("writeErrors")), (Some(3), false), "{reply}");
    let stored: Vec<Document> =
        fixture.things.find(doc! {}).run().expect("a cursor").map(Result::unwrap).collect();
    let expected =
        [doc! { "_id": 0, "a": 5 }, doc! { "_id": 1, "a": "$a" }, doc! { "_id": 2, "a": [1, { "b": 2 }] }];
    assert_eq!(stored, expected);
    // An upsert has them too.
    let inserted = doc! { "q": { "_id": 9 }, "u": set("$$k"), "c": { "k": 7 }, "upsert": true };
    update(vec![inserted], doc! {}).expect("a reply");
    let found = fixture.things.find_one(doc! { "_id": 9 }).run().expect("read");
    assert_eq!(found, Some(doc! { "_id": 9, "a": 7 }));

    let code = |statement: Document| {
        let reply = update(vec![statement], doc! {}).expect("a reply");
        let errors = reply.get_array("writeErrors").expect("errors");
        errors[0].as_document().expect("an error").get_i32("code").expect("a code")
    };
    assert_eq!(code(doc! { "q": {}, "u": { "$set": { "a": 1 } }, "c": { "k": 1 } }), 51198);
    assert_eq!(code(doc! { "q": {}, "u": { "a": 1 }, "c": {} }), 51198);
    assert_eq!(code(doc! { "q": {}, "u": set("$$k"), "c": 5 }), 14);
    // The filter does not see them, nor do other statements.
    assert_eq!(code(doc! { "q": { "$expr": "$$k" }, "u": set("$$k"), "c": { "k": 1 } }), 17276);
    assert_eq!(code(doc! { "q": {}, "u": set("$$k"), "c": { "K": 1 } }), 9);
}
