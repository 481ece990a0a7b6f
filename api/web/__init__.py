"""The explorer's pages: HTML, CSS and JavaScript as browsers read them. `api.rest.routes.explorer` serves them."""
