//! Which namespaces of many are meant: patterns with `*`.

/// Which of the collections of a store or a dump.
#[derive(Debug, clap::Args)]
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
}

/// A name in which each `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// What stands around the stars. There is one more than there are stars.
    around: Vec<String>,
}

impl Pattern {
    /// Reads a pattern. After a backslash a star stands for itself.
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
            return Err(format!("it is no DB.COLLECTION; all of a database is {text}.*"));
        }
        Ok(Self { around })
    }

    /// What the stars stand for in a name that matches, each as short as can be.
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
}
