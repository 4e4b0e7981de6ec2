//! `cairn restore` of dumps whose descriptions have names that no version of mongodump writes: a bit was flipped, or a person has
//! changed them. A collection without its index or option would look as if it were whole.

use std::path::{Path, PathBuf};

use cairndb::bson::doc;

use crate::fixture::content::files_below;
use crate::fixture::restoring::{dumped, fixtures, path, refused, restore, succeeds, target};
use crate::fixture::rich::fill;
use crate::fixture::{Fixture, complains};

/// What users have named, and operators, which the store knows.
const OF_USERS: [&str; 15] = [
    "_id", "sku", "tags", "total", "maybe", "at", "secret", "price", "$**", "a.$**", "$gte", "$gt",
    "tickets", "$sort", "$limit",
];

/// A store with all kinds of options and indexes, and its dump `d`.
fn source() -> Fixture {
    let source = Fixture::new(&[], false);
    fill(&source.path("db"));
    succeeds(&source.run("dump", &["d"]).output().expect("it works"));
    source
}

/// The places of the names in a text of JSON, each name once.
fn names(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for (start, _) in text.match_indices('"') {
        let rest = &text[start + 1..];
        let name = &rest[..rest.find('"').unwrap_or(0)];
        let is_name = rest[name.len()..].starts_with("\":") && !name.contains([',', '{', '}', ':', '[', ']']);
        if is_name && !name.is_empty() && found.iter().all(|(_, other)| other != name) {
            found.push((start + 1, name.to_owned()));
        }
    }
    found
}

/// A copy of a directory.
fn copy(from: &Path, to: &Path) {
    for file in files_below(from) {
        let copied = to.join(file.strip_prefix(from).expect("it is below"));
        std::fs::create_dir_all(copied.parent().expect("it has one")).expect("it works");
        std::fs::copy(file, copied).expect("it works");
    }
}

/// Flips a bit of each name in a file in turn, and has the dump restored into a store that must not be made.
fn flip_each(target: &Fixture, dump: &str, file: &Path) -> usize {
    let text = std::fs::read_to_string(file).expect("it works");
    let named: Vec<_> = names(&text).into_iter().filter(|(_, name)| !OF_USERS.contains(&&**name)).collect();
    for (start, name) in &named {
        let mut bytes = text.clone().into_bytes();
        let at = start + name.len() / 2;
        *bytes.get_mut(at).expect("within the name") ^= 1;
        let flipped = bytes.get(*start..start + name.len()).expect("the name");
        let flipped = String::from_utf8_lossy(flipped).into_owned();
        std::fs::write(file, &bytes).expect("it works");
        let output = target.run("restore", &[dump]).output().expect("it works");
        assert!(!output.status.success(), "{flipped:?} is taken in {}", file.display());
        complains(&output, 1, &format!("{flipped:?}"));
        complains(&output, 1, file.file_name().and_then(|name| name.to_str()).expect("a name"));
    }
    std::fs::write(file, text).expect("it works");
    named.len()
}

#[test]
fn a_name_with_a_flipped_bit_is_refused_before_anything_is_made() {
    let source = source();
    let target = Fixture::new(&[], false);
    std::fs::remove_dir_all(target.path("db")).expect("it works");
    copy(&source.path("d"), &target.path("d"));
    copy(&fixtures("directory"), &target.path("m"));
    let mut count = 0;
    for file in [
        "d/prelude.json",
        "d/shop/orders.metadata.json",
        "d/shop/newest.metadata.json",
        "d/numbers/fast.metadata.json",
        "m/prelude.json",
        "m/shop/items.metadata.json",
    ] {
        count += flip_each(&target, &file[..1], &target.path(file));
        assert!(!target.path("db").exists());
    }
    assert!(count > 90, "{count}");
    // What the flips have left is the dump as it was.
    restore(&target, &["d"]);
    assert_eq!(dumped(&target).keys().count(), dumped(&source).keys().count());
}

/// What stands in filters and pipelines is known to the store, which refuses it by its name.
#[test]
fn an_operator_with_a_flipped_bit_is_named() {
    let source = source();
    for (file, from, to) in [
        ("d/shop/orders.metadata.json", "\"$gte\"", "\"$gue\""),
        ("d/shop/orders.metadata.json", "\"$gt\"", "\"$gu\""),
        ("d/shop/newest.metadata.json", "\"$sort\"", "\"$sorp\""),
    ] {
        let target = target(false);
        copy(&source.path("d"), &target.path("d"));
        replace(&target.path(file), from, to);
        complains(&target.run("restore", &["d"]).output().expect("it works"), 3, to.trim_matches('"'));
    }
}

fn replace(file: &PathBuf, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).expect("it works");
    assert!(text.contains(from), "{text}");
    std::fs::write(file, text.replace(from, to)).expect("it works");
}

#[test]
fn a_type_that_there_is_not_is_refused_and_the_rest_can_be_restored() {
    let source = source();
    for (form, place) in
        [(&["d"][..], "d/shop/newest.metadata.json"), (&["--archive", "a"], "a, metadata of shop.newest")]
    {
        let target = target(false);
        copy(&source.path("d"), &target.path("d"));
        replace(&target.path("d/shop/newest.metadata.json"), "\"type\":\"view\"", "\"type\":\"viev\"");
        succeeds(
            &source
                .run("dump", &["--archive", "-"])
                .stdout(std::fs::File::create(target.path("a")).expect("it works"))
                .output()
                .expect("it works"),
        );
        let mut archive = std::fs::read(target.path("a")).expect("it works");
        // The metadata alone, and not the archive's own field.
        let kind = b"\"collectionName\":\"newest\",\"type\":\"view\"";
        let at = archive.windows(kind.len()).position(|window| window == kind).expect("it is there");
        archive[at + kind.len() - 2] = b'v';
        std::fs::write(target.path("a"), archive).expect("it works");
        refused(
            &target,
            form,
            1,
            &format!("{place}: the type \"viev\" is not known; with --exclude 'shop.newest'"),
        );
        assert!(dumped(&target).is_empty());
        restore(&target, &[form, &["--exclude", "shop.newest"]].concat());
        assert!(dumped(&target).len() > 10);
    }
}

/// Other versions of MongoDB write them.
#[test]
fn names_of_other_versions_are_known() {
    let target = target(false);
    std::fs::create_dir_all(target.path("d/shop")).expect("it works");
    let metadata = doc! {
        "options": { "capped": false },
        "indexes": [
            { "v": 1, "key": { "_id": 1 }, "name": "_id_", "ns": "shop.a" },
            { "v": 1, "key": { "x": 1 }, "name": "x", "ns": "shop.a", "background": true, "dropDups": true, "safe": true, "unique": true },
        ],
    };
    std::fs::write(target.path("d/shop/a.metadata.json"), metadata.to_string()).expect("it works");
    std::fs::write(target.path("d/shop/a.bson"), "").expect("it works");
    restore(&target, &[path(&target.path("d"))]);
    let (_, stored) = &dumped(&target)[&("shop".to_owned(), "a".to_owned())];
    let unique =
        stored.indexes.iter().find(|index| index.get_str("name").ok() == Some("x")).expect("it is made");
    assert_eq!(unique.get_bool("unique").ok(), Some(true));
}
