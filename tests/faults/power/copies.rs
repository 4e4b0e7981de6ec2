//! The process dies, or the power fails, at every operation of the first opening of a copy: the next opening rejects the tokens of the
//! original, whose log of changes goes another way, and has streams of its own.

use std::path::Path;

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, ResumeToken, WriteConcern};
use cairndb_tests::race::on_lanes;
use cairndb_tests::scratch::{Scratch, small};

use crate::power::disk::{Aftermath, Image};
use crate::power::mount::is_possible;
use crate::power::say;
use crate::power::upgrade::{image_of, moments};

fn things_of(client: &Client) -> Collection<Document> {
    client.database("app").collection("things")
}

/// A store with some events, and the token of a stream from before them.
fn original(scratch: &Scratch) -> (Client, ResumeToken) {
    let client = small().open(scratch.path()).expect("opened");
    let stream = things_of(&client).watch().run().expect("opened");
    let token = stream.resume_token().expect("a token");
    things_of(&client).insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run().expect("stored");
    drop(stream);
    (client, token)
}

/// Opens what is left, as its user does who has tokens of the original.
fn judge(left: &Image, token: &ResumeToken) -> Result<(), String> {
    let failed = |error: cairndb::Error| format!("{error:?}");
    let scratch = Scratch::new();
    left.write_to(scratch.folder()).map_err(|error| error.to_string())?;
    let client = small().open(scratch.path()).map_err(failed)?;
    let resumed = things_of(&client).watch().resume_after(token.clone()).run();
    match resumed.and_then(|mut stream| stream.next_if_any()) {
        Err(error) if error.code() == Some(260) => {}
        other => return Err(format!("a token of the original gives {other:?}")),
    }
    let mut stream = things_of(&client).watch().run().map_err(failed)?;
    let things = things_of(&client);
    let insert = things.insert_one(doc! { "_id": 3 }).write_concern(WriteConcern::journaled());
    insert.run().map_err(failed)?;
    let shown = stream.next_if_any().map_err(failed)?;
    let own =
        shown.filter(|event| event.document_key == Some(doc! { "_id": 3 })).ok_or("nothing is shown")?;
    drop(stream);
    client.close().map_err(failed)?;
    let client = small().open(scratch.path()).map_err(failed)?;
    things_of(&client).watch().resume_after(own.id).run().map_err(failed)?;
    let found = things_of(&client).count_documents(doc! {}).run().map_err(failed)?;
    let report = client.verify().map_err(failed)?;
    if found == 3 && report.is_clean() {
        return client.close().map_err(failed);
    }
    Err(format!("{found} documents, and {:?}", report.findings))
}

type BackUp = fn(&Client, &Path);

#[test]
fn a_copy_whose_first_opening_ends_at_any_operation_rejects_the_tokens_of_its_original() {
    if !is_possible() {
        return;
    }
    let ways: [(&str, BackUp); 2] = [
        ("backup", |client, path| drop(client.backup(path).expect("copied"))),
        ("independent_backup", |client, path| drop(client.independent_backup(path).run().expect("copied"))),
    ];
    for (name, back_up) in ways {
        let scratch = Scratch::new();
        let (client, token) = original(&scratch);
        let copy = scratch.folder().join("copy");
        back_up(&client, &copy);
        let image = image_of(&copy);
        let mut ends = 0;
        for syncs_names in [true, false] {
            let moments = moments(&image, syncs_names);
            ends += moments.len();
            on_lanes(2 * moments.len() as u64, |case| {
                let at = usize::try_from(case / 2).expect("few");
                let aftermath =
                    if case % 2 == 0 { Aftermath::Killed } else { Aftermath::Some { seed: case } };
                let disk = moments.get(at).expect("a moment");
                judge(&disk.left(&aftermath), &token).unwrap_or_else(|fault| {
                    panic!("{name}, before operation {at} of {}, {aftermath:?}: {fault}", moments.len())
                });
            });
        }
        say(&format!("power: copies: the first opening of a copy by {name} ended before {ends} operations"));
    }
}
