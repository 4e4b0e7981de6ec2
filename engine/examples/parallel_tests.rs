//! A program whose tests each have a database of their own, in memory, and so run side by side.
//!
//! Run the program with `cargo run --release -p cairndb --example parallel_tests`, and its tests with
//! `cargo test -p cairndb --example parallel_tests`.

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, IndexModel, IndexOptions, Result};

/// What the program does: names that are taken once.
struct Names {
    list: Collection<Document>,
}

impl Names {
    fn new(client: &Client) -> Result<Self> {
        let list = client.database("app").collection("names");
        let options = IndexOptions::builder().unique(true).build();
        list.create_index(IndexModel::builder().keys(doc! { "name": 1 }).options(options).build()).run()?;
        Ok(Self { list })
    }

    /// Takes a name. Returns `false` if somebody has it.
    fn take(&self, name: &str, owner: &str) -> Result<bool> {
        match self.list.insert_one(doc! { "name": name, "owner": owner }).run() {
            Ok(_) => Ok(true),
            Err(error) if error.is_duplicate_key() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn owner(&self, name: &str) -> Result<Option<String>> {
        let found = self.list.find_one(doc! { "name": name }).run()?;
        Ok(found.and_then(|found| found.get_str("owner").ok().map(str::to_owned)))
    }
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
pub(crate) fn main() -> Result<()> {
    // The program itself opens a folder.
    let folder = tempfile::tempdir()?;
    let names = Names::new(&Client::open(folder.path().join("app"))?)?;
    names.take("lamp", "Ada")?;
    println!("lamp is taken again: {}", names.take("lamp", "Grace")?);
    println!("its owner is {}", names.owner("lamp")?.unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new(&Client::in_memory().expect("made")).expect("an index")
    }

    #[test]
    fn a_name_is_taken_once() {
        let names = names();
        assert!(names.take("lamp", "Ada").expect("taken"));
        assert!(!names.take("lamp", "Grace").expect("refused"));
        assert_eq!(names.owner("lamp").expect("found").as_deref(), Some("Ada"));
    }

    /// It has another database than the test beside it.
    #[test]
    fn a_name_is_free_at_first() {
        let names = names();
        assert_eq!(names.owner("lamp").expect("looked up"), None);
        assert!(names.take("lamp", "Grace").expect("taken"));
    }

    #[test]
    fn a_name_goes_to_one_of_many_threads() {
        let names = names();
        let won = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| {
                    let names = &names;
                    scope.spawn(move || names.take("lamp", &number.to_string()).expect("decided"))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).filter(|won| *won).count()
        });
        assert_eq!(won, 1);
    }
}
