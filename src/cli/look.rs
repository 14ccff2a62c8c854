//! The requests of `/vars` and `/table`, parsed.

/// What a person wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Look {
    /// The kernel's variables.
    Variables,
    /// A table; `None` is the next page of the last one.
    Table(Option<TableWish>),
}

/// The part of a table to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct TableWish {
    pub(in crate::cli) name: String,
    /// Page number, from 1.
    pub(in crate::cli) page: u64,
    pub(in crate::cli) sort: Option<String>,
    pub(in crate::cli) descending: bool,
    pub(in crate::cli) filter: Option<String>,
    /// What to do instead of showing a page.
    pub(in crate::cli) instead: Option<Instead>,
}

/// Other operations on a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Instead {
    /// Describes a column.
    Profile(String),
    /// Saves the whole table to a file.
    Save(String),
}

/// The syntax of `/table`.
pub(in crate::cli) const TABLE: &str = "`/table NAME [page N] [sort COLUMN [desc]] [filter TEXT]` or `/table NAME profile COLUMN`, `/table NAME save FILE.csv` (.parquet, .xlsx); \"..\" for names with spaces";

impl TableWish {
    /// Parses the argument of `/table`; `None` if it is invalid.
    pub(in crate::cli) fn parse(text: &str) -> Option<Self> {
        let mut words = words(text)?.into_iter().peekable();
        let mut wish = Self {
            name: words.next()?,
            page: 1,
            ..Self::default()
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "page" => wish.page = words.next()?.parse().ok().filter(|page| *page > 0)?,
                "sort" => {
                    wish.sort = Some(words.next()?);
                    wish.descending = words.next_if(|word| word == "desc").is_some();
                    words.next_if(|word| word == "asc");
                }
                "filter" => wish.filter = Some(words.next()?),
                "profile" => wish.instead = Some(Instead::Profile(words.next()?)),
                "save" => wish.instead = Some(Instead::Save(words.next()?)),
                _ => return None,
            }
        }
        Some(wish)
    }
}

/// Splits words; text in double quotes is one word.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_behind_table() {
        let wish = |text: &str| TableWish::parse(text);
        assert_eq!(
            wish("df sort \"a b\" desc filter \"x y\" page 3"),
            Some(TableWish {
                name: "df".to_owned(),
                page: 3,
                sort: Some("a b".to_owned()),
                descending: true,
                filter: Some("x y".to_owned()),
                instead: None,
            })
        );
        assert_eq!(
            wish("df profile rain").unwrap().instead,
            Some(Instead::Profile("rain".to_owned()))
        );
        assert_eq!(
            wish("df filter x save \"a b.csv\"").unwrap().instead,
            Some(Instead::Save("a b.csv".to_owned()))
        );
        for wrong in [
            "",
            "df save",
            "df page 0",
            "df page",
            "df by x",
            "df sort",
            "df \"a",
        ] {
            assert_eq!(wish(wrong), None, "{wrong}");
        }
    }
}
