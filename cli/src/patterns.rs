//! Which namespaces of many are meant: patterns with `*`, and new names for those that match.

use std::fmt;

use cairndb::Namespace;

use crate::failure::Failure;

/// Which of the collections of a store or a dump.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Which namespaces")]
pub(crate) struct Namespaces {
    /// Only namespaces that match: `shop.*`, `*.orders`. Sequences count by their names. Can be given several times.
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse)]
    include: Vec<Pattern>,
    /// No namespaces that match. Can be given several times.
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse)]
    exclude: Vec<Pattern>,
}

impl Namespaces {
    /// Whether a collection, view or sequence is meant.
    pub(crate) fn has(&self, database: &str, name: &str) -> bool {
        let namespace = format!("{database}.{name}");
        let matches = |pattern: &Pattern| pattern.parts(&namespace).is_some();
        (self.include.is_empty() || self.include.iter().any(matches)) && !self.exclude.iter().any(matches)
    }

    /// Rejects patterns that have chosen nothing of `place`: a name that was mistyped must not look like work that was done.
    pub(crate) fn check_chosen(&self, is_any_chosen: bool, place: &str) -> Result<(), Failure> {
        if is_any_chosen || self.include.is_empty() {
            return Ok(());
        }
        let given: Vec<String> = self.include.iter().map(|pattern| format!("--include {pattern}")).collect();
        let given = given.join(" ");
        Err(Failure::usage(format!("{given}: {place} has no collection, view or sequence that is meant")))
    }
}

/// A name in which each `*` means any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The parts around the stars. There is one more than there are stars.
    around: Vec<String>,
}

impl Pattern {
    /// Reads a pattern. After a backslash a star means itself.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut around = vec![String::new()];
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            let kept = match character {
                '*' => {
                    around.push(String::new());
                    continue;
                }
                '\\' => characters.next().ok_or("it ends with a backslash")?,
                other => other,
            };
            if let Some(last) = around.last_mut() {
                last.push(kept);
            }
        }
        if around.len() == 1 && !text.contains('.') {
            return Err(format!("it is not a DB.COLLECTION; all of a database is {text}.*"));
        }
        Ok(Self { around })
    }

    /// The parts of a matching name that the stars mean, each as short as can be.
    fn parts<'a>(&self, name: &'a str) -> Option<Vec<&'a str>> {
        let (first, others) = self.around.split_first()?;
        let mut rest = name.strip_prefix(first.as_str())?;
        let Some((last, between)) = others.split_last() else { return rest.is_empty().then(Vec::new) };
        let mut parts = Vec::new();
        for text in between {
            let (part, after) = rest.split_once(text.as_str())?;
            parts.push(part);
            rest = after;
        }
        parts.push(rest.strip_suffix(last.as_str())?);
        Some(parts)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, text) in self.around.iter().enumerate() {
            let star = if position == 0 { "" } else { "*" };
            write!(f, "{star}{}", text.replace('\\', "\\\\").replace('*', "\\*"))?;
        }
        Ok(())
    }
}

/// New names for namespaces that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rename {
    from: Pattern,
    to: Pattern,
}

impl Rename {
    /// Reads `FROM=TO`. Both have as many stars.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once('=').ok_or("it must be FROM=TO")?;
        let (from, to) = (Pattern::parse(from)?, Pattern::parse(to)?);
        if from.around.len() != to.around.len() {
            return Err("both sides must have as many stars".to_owned());
        }
        Ok(Self { from, to })
    }

    fn apply(&self, name: &str) -> Option<String> {
        let parts = self.from.parts(name)?;
        let mut renamed = String::new();
        for (position, around) in self.to.around.iter().enumerate() {
            if let Some(part) = position.checked_sub(1).and_then(|before| parts.get(before)) {
                renamed.push_str(part);
            }
            renamed.push_str(around);
        }
        Some(renamed)
    }
}

/// The database and the name that the first matching rule gives, or the same as before.
pub(crate) fn renamed(
    rules: &[Rename],
    database: &str,
    collection: &str,
) -> Result<(String, String), Failure> {
    let before = format!("{database}.{collection}");
    let Some(after) = rules.iter().find_map(|rule| rule.apply(&before)) else {
        return Ok((database.to_owned(), collection.to_owned()));
    };
    let parts = after.split_once('.').filter(|(database, name)| !database.is_empty() && !name.is_empty());
    let (database, name) = parts.ok_or_else(|| {
        Failure::usage(format!("--rename turns {before} into {after}, which is not a DB.COLLECTION"))
    })?;
    Ok((database.to_owned(), name.to_owned()))
}

/// The same of a collection or view. A new name that no store accepts is rejected.
pub(crate) fn renamed_collection(
    rules: &[Rename],
    database: &str,
    collection: &str,
) -> Result<(String, String), Failure> {
    let (to, name) = renamed(rules, database, collection)?;
    // One that keeps its name is judged by the store, with everything else of it.
    if (to.as_str(), name.as_str()) != (database, collection) {
        Namespace::new(to.as_str(), name.as_str()).validate().map_err(|refused| {
            Failure::usage(format!("--rename makes {database}.{collection} to {to}.{name}: {refused}"))
        })?;
    }
    Ok((to, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, name: &str, expected: Option<&[&str]>) {
        let parts = Pattern::parse(pattern).unwrap();
        assert_eq!(parts.parts(name).as_deref(), expected);
    }

    #[test]
    fn stars_stand_for_any_text() {
        check("shop.orders", "shop.orders", Some(&[]));
        check("shop.orders", "shop.orders2", None);
        check("shop.*", "shop.a.b", Some(&["a.b"]));
        check("*.a*b", "shop.a.b.b", Some(&["shop", ".b."]));
        check("*", "shop.orders", Some(&["shop.orders"]));
        check("a*a", "a", None);
        check("*.\\*", "shop.*", Some(&["shop"]));
        assert!(Pattern::parse("shop").is_err() && Pattern::parse("a.b\\").is_err());
    }

    #[test]
    fn renaming_keeps_what_the_stars_stand_for() {
        let rules = [Rename::parse("shop.*=old.*").unwrap(), Rename::parse("*.log=logs.*").unwrap()];
        let name = |database: &str, collection: &str| renamed(&rules, database, collection).unwrap();
        assert_eq!(name("shop", "log"), ("old".into(), "log".into()));
        assert_eq!(name("web", "log"), ("logs".into(), "web".into()));
        assert_eq!(name("web", "other"), ("web".into(), "other".into()));
        assert!(Rename::parse("a.*=b.c").is_err() && Rename::parse("a.b").is_err());
        assert!(renamed(&[Rename::parse("a.*=*.").unwrap()], "a", "b").is_err());
    }
}
