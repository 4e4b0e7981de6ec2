//! The setters of actions: one for each field of the action's options struct.

/// Implements `with_options` and one setter for each listed option on an action that has a field `options`.
macro_rules! setters {
    ($action:ident<$($parameter:tt),*>, $options:ty, { $($(#[$doc:meta])* $name:ident: $value:ty,)* }) => {
        impl<$($parameter),*> $action<$($parameter),*> {
            /// Sets all options at once.
            pub fn with_options(mut self, options: impl Into<Option<$options>>) -> Self {
                self.options = options.into().unwrap_or_default();
                self
            }

            $(
                $(#[$doc])*
                pub fn $name(mut self, $name: $value) -> Self {
                    self.options.$name = Some($name);
                    self
                }
            )*
        }
    };
}
