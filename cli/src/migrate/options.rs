//! The command line of `cairn migrate`.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::migrate::rule::Rule;
use crate::patterns::{Namespaces, Rename};
use crate::store::{Access, namespace};
use crate::talk::Talk;

/// More would only use memory.
const JOBS_MAX: i64 = 16;

/// Moves a store to a MongoDB cluster, or back.
///
/// A plan comes first: what is copied, what cannot be carried, and what keeps the migration from beginning. Then
/// collections, documents in the order of their `_id`s, indexes, validators, views and numbers are made on the other side,
/// and at last both sides are read and compared. Nothing may write to either side meanwhile; a folder is mistaken for this
/// process alone.
///
/// A migration that a signal, a kill or an error ended goes on when the same command is given again.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("cluster").required(true)))]
#[command(after_help = "\
Examples:
  cairn migrate shop-data --to mongodb+srv://ada@cluster.example/ --plan
      what would be copied, and what would not be the same there
  cairn migrate shop-data --to mongodb+srv://ada@cluster.example/ -j 4
      the migration, with four batches on their way at once
  cairn migrate shop-data --from mongodb://db.example/ --include 'shop.*' \\
    --number shop.orders:number=counters/orders
      back into a folder; an auto-increment field replaces the counter")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    pub(super) store: PathBuf,
    /// The cluster to move to: a URI, or a Unix socket.
    #[arg(long, value_name = "URI", group = "cluster", help_heading = "The other side")]
    to: Option<String>,
    /// The cluster to move from: a URI, or a Unix socket. A folder that is absent is made.
    #[arg(long, value_name = "URI", group = "cluster", help_heading = "The other side")]
    from: Option<String>,
    #[command(flatten)]
    pub(super) namespaces: Namespaces,
    /// Move to other names, `FROM=TO`: each `*` of TO is what the same of FROM means. The first rule that matches
    /// counts.
    #[arg(long, value_name = "FROM=TO", value_parser = Rename::parse, help_heading = "What is moved")]
    pub(super) rename: Vec<Rename>,
    /// Read both sides, print the plan, and write nothing.
    #[arg(long, help_heading = "How it runs")]
    pub(super) plan: bool,
    /// The file with the progress of the migration: STORE.cairn-migrate unless given. A STORE that is a URI needs it.
    #[arg(long, value_name = "FILE", help_heading = "How it runs")]
    pub(super) state: Option<PathBuf>,
    /// The collection in which sequences become counters: `counters` in the database of each, unless given.
    #[arg(long, value_name = "DB.COLLECTION", conflicts_with = "from", help_heading = "Numbers")]
    pub(super) counters: Option<String>,
    /// Make an auto-increment field in place of a counter, `DB.COLLECTION:FIELD=COUNTERS/_ID`. COUNTERS is a
    /// collection of the same database, or `DB.COLLECTION`. Can be given several times.
    #[arg(long, value_name = "FIELD=COUNTER", conflicts_with = "to", value_parser = Rule::parse_field, help_heading = "Numbers")]
    pub(super) number: Vec<Rule>,
    /// Make a sequence in place of a counter, `DB.NAME=COUNTERS/_ID`. Can be given several times.
    #[arg(long, value_name = "NAME=COUNTER", conflicts_with = "to", value_parser = Rule::parse_sequence, help_heading = "Numbers")]
    pub(super) sequence: Vec<Rule>,
    /// Go on without what the other side does not support: it is named, and the exit status is 3.
    #[arg(long, help_heading = "What is moved")]
    pub(super) skip_unsupported: bool,
    /// The number of batches that are written, and of collections that are compared, at once.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX), help_heading = "How it runs")]
    pub(super) jobs: u16,
    #[command(flatten)]
    pub(super) access: Access,
    /// Read the password of STORE's user from the first line of this file, if STORE is a URI. The password of the other
    /// side's user is that of --password-file.
    #[arg(long, value_name = "FILE", help_heading = "The other side")]
    pub(super) store_password_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) talk: Talk,
}

/// Which way documents go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToCluster,
    FromCluster,
}

impl Arguments {
    pub(super) fn direction(&self) -> Direction {
        if self.from.is_some() { Direction::FromCluster } else { Direction::ToCluster }
    }

    /// The other side, as the command line names it.
    pub(super) fn cluster(&self) -> &str {
        self.from.as_deref().or(self.to.as_deref()).unwrap_or_default()
    }

    /// The collection of counters that is named.
    pub(super) fn counters(&self) -> Result<Option<(&str, &str)>, Failure> {
        self.counters.as_deref().map(namespace).transpose()
    }

    /// The options that must be the same when the migration continues.
    pub(super) fn identity(&self) -> String {
        let Self { namespaces, rename, counters, number, sequence, skip_unsupported, .. } = self;
        let (direction, cluster) = (self.direction(), hosts(self.cluster()));
        format!(
            "{direction:?} {cluster} {namespaces:?} {rename:?} {counters:?} {number:?} {sequence:?} {skip_unsupported}"
        )
    }
}

/// The part of a URI that says where a cluster is, without the user and the options.
pub(super) fn hosts(uri: &str) -> &str {
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    // A path of a socket has no user and no options.
    if rest == uri {
        return uri;
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_and_a_password_are_no_part_of_where_a_cluster_is() {
        assert_eq!(hosts("mongodb://ada:secret@a:1,b:2/?x=1"), "a:1,b:2");
        assert_eq!(hosts("mongodb+srv://c.example"), "c.example");
        assert_eq!(hosts("run/a@b.sock"), "run/a@b.sock");
    }
}
