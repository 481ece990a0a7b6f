"""The API browser at `/docs`: Swagger UI over `/openapi.json`. All its files are in this package.

They are those of npm's `swagger-ui-dist` 5.35.0, beside our `index.html` and `start.js`.
"""

from pathlib import Path

from fastapi import Request
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from starlette.routing import Route

FILES = StaticFiles(directory=Path(__file__).parent.parent / "swagger_ui")
HEADERS = {
    "Cache-Control": "private, no-cache",
    # Only files of this service, and the styles that Swagger UI writes into its elements.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
PATHS = {
    "/docs": "index.html",
    "/docs/start.js": "start.js",
    "/docs/swagger-ui-bundle.js": "swagger-ui-bundle.js",
    "/docs/swagger-ui.css": "swagger-ui.css",
}


async def read_file(request: Request) -> Response:
    """The file of this path. A browser that has it asks with its ETag and gets 304."""
    response = await FILES.get_response(PATHS[request.scope["path"]], request.scope)
    response.headers.update(HEADERS)
    return response


def browser_routes() -> list[Route]:
    """One route a file, so that metrics name each path."""
    return [Route(path, read_file, include_in_schema=False) for path in PATHS]
