//! Made-up recordings for the tests of the views.
