//! The declaration of the options of a call: each once, for the struct, for the action's setter and for the command.

use base::error::Result;

use crate::arguments::Arguments;

/// Declares options.
///
/// An option is a field of the struct `$options`. The macro `$option` makes its setter, for every action that has a field `options`. With the
/// name of a field of a command, it is read from there.
macro_rules! options {
    ($(#[$meta:meta])* $options:ident, $option:ident, {
        $($(#[doc = $doc:literal])+ $name:ident: $value:ty $(= $field:literal)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        #[non_exhaustive]
        pub struct $options {
            $($(#[doc = $doc])+ pub $name: Option<$value>,)*
        }

        impl crate::options::declare::Options for $options {
            const FIELDS: &'static [&'static str] = &[$($($field,)?)*];

            fn read(_arguments: &crate::arguments::Arguments<'_>) -> base::error::Result<Self> {
                Ok(Self { $($name: crate::options::declare::options!(@read _arguments $($field)?),)* })
            }
        }

        /// The setter of an option, or the setters of all.
        macro_rules! $option {
            () => { $($option!($name);)* };
            $(($name) => {
                $(#[doc = $doc])+
                pub fn $name(mut self, $name: $value) -> Self {
                    self.options.$name = Some($name);
                    self
                }
            };)*
        }
        pub(crate) use $option;
    };
    (@read $arguments:ident $field:literal) => { $arguments.read($field)? };
    (@read $arguments:ident) => { None };
}
pub(crate) use options;

/// Implements the setters of an action that has a field `options`: `with_options`, and one for each option, or for each that is listed.
macro_rules! setters {
    ($action:ident<$($parameter:tt),*>, $options:ident, $option:ident $(, [$($name:ident),+ $(,)?])?) => {
        impl<$($parameter),*> $action<$($parameter),*> {
            #[doc = concat!(
                " Sets all options at once: see [`", stringify!($options), "`](crate::", stringify!($options), ")."
            )]
            pub fn with_options(mut self, options: impl Into<Option<$options>>) -> Self {
                // `None` means the defaults, as in MongoDB's driver.
                self.options = options.into().unwrap_or_default();
                self
            }

            crate::options::declare::setters!(@each $option $(, $($name),+)?);
        }
    };
    (@each $option:ident) => { $option!(); };
    (@each $option:ident, $($name:ident),+) => { $($option!($name);)+ };
}
pub(crate) use setters;

/// Options that a command can have.
pub(crate) trait Options: Sized {
    /// Their fields in the command.
    const FIELDS: &'static [&'static str];

    /// Reads them. Options without a field are absent.
    fn read(arguments: &Arguments<'_>) -> Result<Self>;
}
